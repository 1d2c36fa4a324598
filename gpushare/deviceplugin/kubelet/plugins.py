"""The two device plugins of a node: units of memory, and percent of compute where the mode divides it."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

import structlog

from gpushare.contract import CORE_PER_CARD, CORE_SOCKET, MEM_SOCKET, RESOURCE_CORE, RESOURCE_MEM
from gpushare.deviceplugin.core.device_ids import devices_of, namer_for, preferred
from gpushare.deviceplugin.core.interface import AllocateResponse, Device, Rejected
from gpushare.deviceplugin.core.response import legacy_failure
from gpushare.deviceplugin.core.shared_gpus import SharedGpus
from gpushare.deviceplugin.kubelet.allocator import AllocateSettings, Allocator
from gpushare.deviceplugin.node.state import NodeState
from gpushare.model.cards import Card
from gpushare.model.demand import Malformed
from gpushare.model.modes import WITH_CORE, Mode

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class PluginSpec:
    """What distinguishes the two plugins.

    ``modes`` are the sharing modes that offer the resource, and ``units`` returns the number of devices of a
    GPU. ``allocate`` serves an Allocate call with these device IDs; ``cards_for`` returns the indices of the
    GPUs for the next container with that number of devices, empty if unknown.
    """

    resource: str
    socket: str
    modes: frozenset[Mode]
    units: Callable[[Card], int]
    allocate: Callable[[Sequence[str]], Awaitable[AllocateResponse | Rejected]]
    cards_for: Callable[[int], Awaitable[tuple[int, ...]]]


def mem_plugin(node_state: NodeState, allocator: Allocator, settings: AllocateSettings) -> "GpuPlugin":
    """The plugin of ``aliyun.com/gpu-mem``, which every mode offers."""

    async def failing_by_environment(ids: Sequence[str]) -> AllocateResponse | Rejected:
        outcome = await allocator.allocate_mem(ids)
        if isinstance(outcome, AllocateResponse):
            return outcome
        log.warning("allocate_refused", reason=outcome.reason, text=outcome.text, answer="invalid device")
        return legacy_failure(len(ids), settings.unit, node_state.allocations.cards, outcome.reason)

    spec = PluginSpec(
        RESOURCE_MEM,
        MEM_SOCKET,
        modes=frozenset(Mode),
        units=lambda card: card.units,
        allocate=failing_by_environment if settings.legacy_failure_env else allocator.allocate_mem,
        cards_for=allocator.cards_for_mem,
    )
    return GpuPlugin(node_state, spec)


def core_plugin(node_state: NodeState, allocator: Allocator) -> "GpuPlugin":
    """The plugin of ``aliyun.com/gpu-core.percentage``, for nodes whose mode divides compute."""
    spec = PluginSpec(
        RESOURCE_CORE,
        CORE_SOCKET,
        modes=WITH_CORE,
        units=lambda _: CORE_PER_CARD,
        allocate=allocator.allocate_core,
        cards_for=allocator.cards_for_core,
    )
    return GpuPlugin(node_state, spec)


class GpuPlugin:
    """Offers one resource of the shared GPUs to the kubelet; implements ``interface.Plugin``."""

    def __init__(self, node_state: NodeState, spec: PluginSpec) -> None:
        self.resource = spec.resource
        self.socket = spec.socket
        self.up = False
        self._node_state = node_state
        self._spec = spec
        self._published: object = None

    def devices(self) -> Iterable[Device]:
        """The current devices; none while the node must not be served."""
        # Before the list is made: a change meanwhile is then seen as one.
        self._published = self._offer()
        shared_gpus = self._node_state.shared_gpus
        if shared_gpus is None or not self._offered:
            return []
        namer = namer_for(shared_gpus.cards)
        if isinstance(namer, Malformed):
            return []
        return devices_of(shared_gpus.cards, namer, self._spec.units, shared_gpus.cordoned)

    async def changed(self) -> None:
        """Return when the shared GPUs have changed, or serving has begun or ended."""
        while self._offer() == self._published:
            await self._node_state.changed()

    async def until_offered(self) -> None:
        """Return once the node offers the resource."""
        while not self._offered:
            await self._node_state.changed()

    async def prefer(self, available: Sequence[str], must: Sequence[str], size: int) -> Sequence[str]:
        """IDs of the GPUs for the container of the next Allocate call.

        Selected in a thread: with MiB as unit there are 130,000 of them.
        """
        wanted = await self._spec.cards_for(size)
        cards = self._node_state.allocations.cards
        return await asyncio.to_thread(preferred, available, must, size, wanted, cards)

    async def allocate(self, ids: Sequence[str]) -> AllocateResponse | Rejected:
        """The response for a container that gets these device IDs."""
        return await self._spec.allocate(ids)

    def registered(self, *, up: bool) -> None:
        """Receives whether the kubelet watches the devices."""
        self.up = up

    def _offer(self) -> tuple[SharedGpus | None, bool]:
        return self._node_state.shared_gpus, self._offered

    @property
    def _offered(self) -> bool:
        mode = self._node_state.allocations.mode
        return self._node_state.not_serving_reason is None and mode in self._spec.modes
