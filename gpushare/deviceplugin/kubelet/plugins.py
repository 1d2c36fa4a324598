"""The two device plugins of a node: units of memory, and percent of compute where the mode divides it."""

import asyncio
from collections.abc import Iterable, Sequence

from gpushare.contract import CORE_PER_CARD, CORE_SOCKET, MEM_SOCKET, RESOURCE_CORE, RESOURCE_MEM
from gpushare.deviceplugin.core.device_ids import devices_of, namer_for, preferred
from gpushare.deviceplugin.core.interface import AllocateResponse, Device, Rejected
from gpushare.deviceplugin.core.shared_gpus import SharedGpus
from gpushare.deviceplugin.kubelet.allocator import Allocator
from gpushare.deviceplugin.node.state import NodeState
from gpushare.model.cards import Card
from gpushare.model.demand import Malformed
from gpushare.model.modes import WITH_CORE


class _Plugin:
    """The common part of both; implements ``interface.Plugin``."""

    resource = ""
    socket = ""

    def __init__(self, node_state: NodeState, allocator: Allocator) -> None:
        self._node_state = node_state
        self._allocator = allocator
        self._published: object = None
        self.up = False

    def devices(self) -> Iterable[Device]:
        """The current devices; none while the node must not be served."""
        self._published = self._offer()
        shared_gpus = self._node_state.shared_gpus
        if shared_gpus is None or not self._offers():
            return []
        namer = namer_for(shared_gpus.cards)
        if isinstance(namer, Malformed):
            return []
        return devices_of(shared_gpus.cards, namer, self._units, shared_gpus.cordoned)

    async def changed(self) -> None:
        """Return when the shared GPUs have changed, or serving has begun or ended."""
        while self._offer() == self._published:
            await self._node_state.changed()

    async def prefer(self, available: Sequence[str], must: Sequence[str], size: int) -> Sequence[str]:
        """IDs of the GPUs for the container of the next Allocate call.

        Selected in a thread: with MiB as unit there are 130,000 of them.
        """
        wanted = await self._wanted(size)
        cards = self._node_state.allocations.cards
        return await asyncio.to_thread(preferred, available, must, size, wanted, cards)

    def registered(self, *, up: bool) -> None:
        """Receives whether the kubelet watches the devices."""
        self.up = up

    def _offer(self) -> tuple[SharedGpus | None, bool]:
        return self._node_state.shared_gpus, self._offers()

    def _offers(self) -> bool:
        return self._node_state.not_serving_reason is None

    def _units(self, card: Card) -> int:
        raise NotImplementedError

    async def _wanted(self, size: int) -> tuple[int, ...]:
        raise NotImplementedError


class MemPlugin(_Plugin):
    """``aliyun.com/gpu-mem``."""

    resource = RESOURCE_MEM
    socket = MEM_SOCKET

    async def allocate(self, ids: Sequence[str]) -> AllocateResponse | Rejected:
        """The response with the container's GPUs."""
        return await self._allocator.allocate_mem(ids)

    def _units(self, card: Card) -> int:
        return card.units

    async def _wanted(self, size: int) -> tuple[int, ...]:
        return await self._allocator.wanted_cards(size)


class CorePlugin(_Plugin):
    """``aliyun.com/gpu-core.percentage``, on nodes whose mode divides compute."""

    resource = RESOURCE_CORE
    socket = CORE_SOCKET

    async def allocate(self, ids: Sequence[str]) -> AllocateResponse | Rejected:
        """An empty response; the GPU comes with the memory."""
        return await self._allocator.allocate_core(ids)

    async def wanted(self) -> None:
        """Return once the node's mode divides compute; the plugin is registered only then."""
        while not self._offers():
            await self._node_state.changed()

    def _offers(self) -> bool:
        return super()._offers() and self._node_state.allocations.mode in WITH_CORE

    def _units(self, card: Card) -> int:
        del card
        return CORE_PER_CARD

    async def _wanted(self, size: int) -> tuple[int, ...]:
        return await self._allocator.core_cards(size)
