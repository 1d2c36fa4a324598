"""Keeps regions at their size, and reports containers that change it.

Every process of a container may write its region, and so append to it until the filesystem is full. Regions
on a separate filesystem can fill nothing else; without one, that is reported as degraded mode.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

import structlog

from gpushare.adapters.mounts import is_separate_filesystem
from gpushare.contract import EVENT_REGION, ISOLATION_INSIDE
from gpushare.deviceplugin.core.limits import is_limited
from gpushare.deviceplugin.isolation.files import EnforcementFiles
from gpushare.deviceplugin.isolation.manager import EnforcementManager
from gpushare.deviceplugin.metrics import PluginMetrics
from gpushare.deviceplugin.node.state import NodeState
from gpushare.errors import SourceError
from gpushare.isolation.files import RegionSize, region_size, shrink_region
from gpushare.isolation.layout import REGION, DirectoryOwner
from gpushare.ports import KubeEvent, pod_event

log = structlog.get_logger()

FILESYSTEM: Final = "isolation-filesystem"
"""Value of the label ``right`` of the degraded mode metric."""
GROWN: Final = "grown"
CUT: Final = "cut"
_ROUND_S: Final = 1.0


class Resized(NamedTuple):
    """A container that has changed the size of its region; ``change`` is GROWN or CUT."""

    owner: DirectoryOwner
    change: str
    size: RegionSize


class RegionSizes:
    """Checks the regions of one node state. ``record_event`` receives events on pods."""

    def __init__(
        self,
        node_state: NodeState,
        manager: EnforcementManager,
        files: EnforcementFiles,
        metrics: PluginMetrics,
        *,
        record_event: Callable[[KubeEvent], None],
        round_s: float = _ROUND_S,
    ) -> None:
        self._node_state = node_state
        self._manager = manager
        self._state = files.folders.state
        self._shared = not is_separate_filesystem(self._state)
        self._metrics = metrics
        self._record_event = record_event
        self._round_s = round_s
        self._changed: frozenset[tuple[DirectoryOwner, str]] = frozenset()
        self._reported: frozenset[tuple[DirectoryOwner, str]] = frozenset()
        self._warned = False

    @property
    def notices(self) -> tuple[str, ...]:
        """A sentence for the administrator if containers can fill a filesystem that the node needs."""
        if not (self._shared and is_limited(self._node_state.allocations)):
            return ()
        parent = self._state.parent
        return (f"{self._state} is not a separate filesystem: a container can fill {parent} of the node",)

    async def run(self) -> None:
        """Run rounds until cancelled."""
        while True:
            self._report_filesystem()
            if self._manager.enforcements:
                await self.round()
                await asyncio.sleep(self._round_s)
            else:
                await self._node_state.changed()

    async def round(self) -> None:
        """Check and repair all regions once."""
        directories = {owner: each.directory for owner, each in self._manager.enforcements.items()}
        # In a thread, because the pages of a large file take long to free.
        resized = await asyncio.to_thread(lambda: tuple(self._repaired(directories.items())))
        for each in resized:
            if each.change == GROWN or (each.owner, each.change) not in self._changed:
                self._metrics.regions.labels(each.change).inc()
            if (each.owner, each.change) not in self._reported:
                self._report(each)
        self._changed = frozenset((each.owner, each.change) for each in resized)
        self._reported = frozenset(
            known for known in self._reported | self._changed if known[0] in directories
        )

    def _repaired(self, directories: Iterable[tuple[DirectoryOwner, str]]) -> Iterator[Resized]:
        for owner, directory in directories:
            path = self._state / directory / REGION
            try:
                size = region_size(path)
                if size.actual > size.expected:
                    shrink_region(path, size.expected)
            except (OSError, SourceError):
                continue  # reported by the pacer and the exporter
            if size.actual != size.expected:
                yield Resized(owner, GROWN if size.actual > size.expected else CUT, size)

    def _report(self, resized: Resized) -> None:
        """An event is sent once for each container and change: a container can repeat it without end."""
        size, file = resized.size, f"{ISOLATION_INSIDE}/{REGION}"
        if resized.change == GROWN:
            done = f"has made {file} {size.actual} bytes large. It was cut to its {size.expected} bytes again"
        else:
            done = (
                f"has cut {file} to {size.actual} of {size.expected} bytes. Its GPU memory allocations fail: "
                "recreate the pod"
            )
        text = f"container {resized.owner.container} {done}"
        log.warning("region_resized", uid=resized.owner.uid, change=resized.change, text=text)
        if gpu_pod := self._node_state.allocations.gpu_pods.get(resized.owner.uid):
            self._record_event(pod_event(gpu_pod.pod, EVENT_REGION, text, warning=True))

    def _report_filesystem(self) -> None:
        degraded = bool(self.notices)
        if degraded and not self._warned:
            log.warning("degraded_mode", right=FILESYSTEM, effect=self.notices[0])
        if degraded or self._warned:
            self._metrics.degraded.labels(FILESYSTEM).set(int(degraded))
        self._warned = degraded
