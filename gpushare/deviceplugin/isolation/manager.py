"""Enforces limits on containers: writes their files before Allocate returns, removes them after the pod.

All calls come from one event loop, and nothing is awaited between reading the node state and writing files,
so a container directory that was just created is never removed.
"""

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final

import structlog

from gpushare.deviceplugin.core.allocations import Allocation, Enforcement
from gpushare.deviceplugin.core.decision import Capabilities, limits_problem, without_mps
from gpushare.deviceplugin.core.limits import is_limited
from gpushare.deviceplugin.isolation.files import EnforcementFiles, MpsStatus
from gpushare.deviceplugin.metrics import PluginMetrics
from gpushare.deviceplugin.node.checkpoint import Observer
from gpushare.deviceplugin.node.record import AllocationRecord
from gpushare.errors import ConfigError
from gpushare.isolation.layout import LAUNCH_LIBRARY, LIBRARY, DirectoryOwner
from gpushare.model.modes import Mode
from gpushare.runtime.reasons import Reasons

log = structlog.get_logger()

_RETRY_S: Final = 5.0
_POLL_S: Final = 1.0
RIGHT: Final = "isolation"
"""Value of the label ``right`` of the degraded mode metric."""
_UNLIMITED: Final = (
    f"no container is limited to its units: nodes of mode {Mode.CGPU} and {Mode.CORE_MEM} reject them"
)


class EnforcementManager:
    """Enforces the limits of one node state. ``paces``: whether a pacer sets launch rates."""

    def __init__(
        self,
        observer: Observer,
        record: AllocationRecord,
        files: EnforcementFiles,
        mps: MpsStatus,
        metrics: PluginMetrics,
        *,
        paces: bool = False,
    ) -> None:
        self._observer = observer
        self._node_state = observer.node_state
        self._record = record
        self._files = files
        self._mps = mps
        self._metrics = metrics
        self._paces = paces
        self._missing: frozenset[str] = frozenset()
        self._without_launches = ""
        self._unmounted = False
        self._problems = Reasons()

    def capabilities(self) -> Capabilities:
        """What the node can enforce now. Reads the disk: the library's version and the MPS ready locks."""
        allocations = self._node_state.allocations
        library = self._files.library() if is_limited(allocations) and self._files.visible else None
        mps = allocations.mode is Mode.MPS and self._mps.visible
        ready = (card.uuid for card in allocations.cards if mps and self._mps.up(card.uuid))
        return Capabilities(
            isolation=self._files.visible,
            noexec=self._files.noexec,
            library=library,
            launches=library is not None and self._limits_launches(library),
            mps=self._mps.visible,
            mps_gpus=frozenset(ready),
            libraries_dir=str(self._files.folders.libraries),
            state_dir=str(self._files.folders.state),
            mps_dir=str(self._mps.folders.state),
        )

    def _limits_launches(self, library: str) -> bool:
        if not self._paces or self._node_state.allocations.mode is not Mode.CORE_MEM:
            return False
        found = self._files.has(library, LAUNCH_LIBRARY)
        if not found and library != self._without_launches:
            log.warning("launches_not_limited", version=library, reason=f"it has no {LAUNCH_LIBRARY}")
        self._without_launches = "" if found else library
        return found

    async def write(self, allocation: Allocation) -> None:
        """Write the limit files of an allocation in the node state, and the record. Raises ConfigError."""
        if allocation.enforcement:
            self._files.create(allocation.enforcement)
        await self._record.write(lambda: self._node_state.allocations)

    async def run(self) -> None:
        """Keep the limit files in step with the allocations until cancelled."""
        synced = None
        while True:
            allocations = self._node_state.allocations.by_container
            if allocations is synced or not self._files.visible:
                await self._node_state.changed()
            elif self.sync():
                synced = allocations
            else:
                await asyncio.sleep(_RETRY_S)

    async def watch_obstacles(self) -> None:
        """Keep the node state informed of what would have containers rejected, until cancelled."""
        while True:
            self.check_obstacles()
            with suppress(TimeoutError):
                async with asyncio.timeout(_POLL_S):
                    await self._node_state.changed()

    def check_obstacles(self) -> None:
        """Look once: the library may be missing, and MPS control daemons may not be ready."""
        allocations, capabilities = self._node_state.allocations, self.capabilities()
        if not self._files.visible:
            self._report_mounts(needed=is_limited(allocations))
        problem = limits_problem(allocations, capabilities)
        self._node_state.apply_obstacle(RIGHT, problem.text if problem else None)
        self._node_state.apply_without_mps(without_mps(allocations, capabilities))

    def _report_mounts(self, *, needed: bool) -> None:
        """Report the missing mounts while the node limits containers; else it needs none."""
        if needed and not self._unmounted:
            log.warning("degraded_mode", right=RIGHT, effect=_UNLIMITED)
        self._metrics.degraded.labels(RIGHT).set(int(needed))
        self._unmounted = needed

    def sync(self) -> bool:
        """Write and remove files once; returns whether all succeeded.

        Files are removed only when all pods of the node are known.
        """
        # Files are removed below: the checkpoint may just have named another owner.
        self._observer.observe()
        is_complete = self._node_state.is_complete
        enforcements = self.enforcements
        try:
            self._files.sync(enforcements, clear=is_complete)
        except ConfigError as error:
            self._metrics.degraded.labels(RIGHT).set(1)
            if self._problems.is_new(str(error)):
                log.warning("limit_files_not_synced", reason=str(error))
            return False
        self._problems.end()
        self._report_missing(enforcements.values())
        return True

    @property
    def enforcements(self) -> Mapping[DirectoryOwner, Enforcement]:
        """The enforcements of all limited containers."""
        allocations = self._node_state.allocations.by_container.values()
        return {
            DirectoryOwner(each.uid, each.container): each.enforcement
            for each in allocations
            if each.enforcement
        }

    @property
    def cards(self) -> frozenset[str]:
        """UUIDs of the GPUs with limited containers."""
        allocations = self._node_state.allocations.by_container.values()
        return frozenset(uuid for each in allocations if each.enforcement for uuid, _ in each.cards)

    def _report_missing(self, enforcements: Iterable[Enforcement]) -> None:
        """Report missing library versions: containers that use them do not start again."""
        in_use = {(each.library, each.launches) for each in enforcements}
        missing = frozenset(
            version
            for version, launches in in_use
            if not self._files.has(version, LAUNCH_LIBRARY if launches else LIBRARY)
        )
        if missing - self._missing:
            log.error(
                "library_gone",
                versions=sorted(missing),
                folder=str(self._files.folders.libraries),
                effect="containers that use it do not start again until it is installed",
            )
        self._missing = missing
        self._metrics.degraded.labels(RIGHT).set(int(bool(missing)))
