"""A node state with its allocator and their collaborators, without running jobs; the test is the kubelet."""

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from pathlib import Path

from gpushare.deviceplugin.api.status import StatusPublisher
from gpushare.deviceplugin.api.writer import ApiWriter
from gpushare.deviceplugin.core.allocations import AllocateSnapshot
from gpushare.deviceplugin.core.interface import AllocateResponse, Rejected
from gpushare.deviceplugin.core.reconcile import ServedContainer
from gpushare.deviceplugin.core.response import ResponseSettings
from gpushare.deviceplugin.core.shared_gpus import SharedGpus
from gpushare.deviceplugin.isolation.files import EnforcementFiles, MpsStatus
from gpushare.deviceplugin.isolation.manager import EnforcementManager
from gpushare.deviceplugin.kubelet.allocator import AllocateSettings, Allocator
from gpushare.deviceplugin.kubelet.client import KubeletClient
from gpushare.deviceplugin.kubelet.plugins import core_plugin, mem_plugin
from gpushare.deviceplugin.kubelet.retries import PodSources
from gpushare.deviceplugin.metrics import PluginMetrics
from gpushare.deviceplugin.node.checkpoint import Observer
from gpushare.deviceplugin.node.record import AllocationRecord
from gpushare.deviceplugin.node.release import GpuReleaser
from gpushare.deviceplugin.node.state import KubeletAllocations, NodeState
from gpushare.deviceplugin.watchdog import Watchdog
from gpushare.isolation.layout import IsolationDirs
from gpushare.model.cards import Card
from gpushare.model.changes import Deleted, Upserted
from gpushare.model.device_lists import DeviceList
from gpushare.model.local_node import GpuPod, LocalNode
from gpushare.model.options import DeviceListStrategy, MemoryUnit
from gpushare.mps.layout import MpsDirs
from gpushare.ports import KubeEvent
from tests.support.builders import gpu_pods as builders
from tests.support.builders.gpu_pods import NODE
from tests.unit.deviceplugin.fakes import FakeAgentApi

VERSION = "0123456789abcdef"


class AgentFixture:
    """``named`` and ``whole`` are the gpu-mem devices and whole GPUs in the kubelet's checkpoint.

    ``names`` are the pods that the kubelet has admitted, ``alive`` the pods that have a cgroup.
    ``unwatched`` are pods that the watch shows once it is tried again, and ``retried`` is whether that was
    wanted. ``node_read`` is whether the API server has returned the node.
    """

    def __init__(
        self,
        folder: Path,
        *units: int,
        legacy_failure_env: bool = False,
        alive: Iterable[str] = (),
        timeout_s: float = 0.3,
        paces: bool = False,
        node_read: bool = True,
    ) -> None:
        self.named: tuple[ServedContainer, ...] | None = ()
        self.names: frozenset[str] | None = None
        self.whole: dict[str, frozenset[str]] = {}
        self.alive = set(alive)
        self.events: list[KubeEvent] = []
        self.kubelet_pods: list[GpuPod] | None = []
        self.unwatched: list[GpuPod] = []
        self.retried = False
        self.slow_s = 0.0
        self.record = AllocationRecord(folder, MemoryUnit.GIB)
        self.metrics = PluginMetrics()
        self.watchdog = Watchdog(self.metrics)
        self.node_state = NodeState(NODE, self.record.read())
        self.observer = Observer(self.node_state, self._recorded)
        self.node_state.apply_gpus(SharedGpus(MemoryUnit.GIB, builders.cards(*units)))
        self.node_state.apply_device_list(DeviceList(DeviceListStrategy.ENV))
        if node_read:
            self.node_state.apply_node(LocalNode(NODE), None)
        self.observe()
        self.node_state.mark_synced()
        self.releaser = GpuReleaser(self.node_state, lambda uids: uids & self.alive, start_grace_s=0)
        folders = IsolationDirs(folder / "libraries", folder / "state")
        mps = MpsDirs(folder / "mps", folder / "shm")
        self.manager = EnforcementManager(
            self.observer,
            self.record,
            EnforcementFiles(folders),
            MpsStatus(mps),
            self.metrics,
            paces=paces,
        )
        style = ResponseSettings(folders=folders, mps=mps)
        settings = AllocateSettings(
            style, MemoryUnit.GIB, legacy_failure_env=legacy_failure_env, timeout_s=timeout_s
        )
        self.allocator = Allocator(
            self.observer,
            self.releaser,
            self.manager,
            settings,
            sources=PodSources(KubeletClient(self.ask, self.ask_names), self.retry_watches),
            record_event=self.events.append,
            watchdog=self.watchdog,
        )
        self.api = FakeAgentApi()
        self.writer = ApiWriter(self.api, self.metrics, self.watchdog)
        self.status = StatusPublisher(
            self.node_state, self.writer, self.metrics, record_event=self.events.append
        )
        self.mem = mem_plugin(self.node_state, self.allocator, settings)
        self.core = core_plugin(self.node_state, self.allocator)

    def observe(self) -> AllocateSnapshot:
        return self.observer.observe()

    async def release_terminated(self) -> frozenset[str]:
        return await self.releaser.release(self.observe().terminated)

    def _recorded(self, _: tuple[Card, ...]) -> KubeletAllocations | None:
        return None if self.named is None else KubeletAllocations(self.named, self.whole)

    async def ask(self) -> list[GpuPod] | None:
        await asyncio.sleep(self.slow_s)
        return self.kubelet_pods

    async def ask_names(self) -> frozenset[str] | None:
        return self.names

    def retry_watches(self) -> None:
        self.retried = True
        self.add_pods(*self.unwatched)

    def add_pods(self, *gpu_pods: GpuPod) -> None:
        self.node_state.apply_gpu_pods([Upserted(each.pod.uid, each) for each in gpu_pods])

    def delete_pod(self, uid: str) -> None:
        self.node_state.apply_gpu_pods([Deleted(uid)])

    def confirm(
        self, uid: str, units: int, lead: str, container: str = "main", cards: tuple[str, ...] = ()
    ) -> None:
        """The kubelet writes the container into its checkpoint; ``cards`` are the GPUs of the response."""
        self.named = (*(self.named or ()), ServedContainer(uid, container, lead, units, cards))
        self.observe()


def ids(card: int, *numbers: int) -> Sequence[str]:
    return [f"GPU-{card}-_-{number}" for number in numbers]


async def allocated(call: Awaitable[AllocateResponse | Rejected]) -> AllocateResponse:
    """The response of a call that must not be rejected."""
    answer = await call
    assert isinstance(answer, AllocateResponse), answer
    return answer


async def rejected(call: Awaitable[AllocateResponse | Rejected]) -> Rejected:
    """The rejection of a call."""
    answer = await call
    assert isinstance(answer, Rejected), answer
    return answer


def install_library(folder: Path, version: str = VERSION, *, launches: bool = True) -> None:
    """Create both libraries as the installer does, or only the one for memory."""
    library = folder / "libraries" / version
    library.mkdir(parents=True)
    (folder / "state").mkdir(exist_ok=True)
    names = ["libgpushare.so", "ld.so.preload", "libgpushare-launch.so"]
    for name in names if launches else names[:2]:
        (library / name).write_text("")
    current = folder / "libraries" / "current"
    current.unlink(missing_ok=True)
    current.symlink_to(version)
