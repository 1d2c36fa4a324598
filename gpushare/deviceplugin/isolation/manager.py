"""Enforces limits on containers: writes their files before Allocate returns, removes them after the pod.

All calls come from one event loop, and nothing is awaited between reading the node state and writing files,
so a container directory that was just created is never removed.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final

import structlog

from gpushare.deviceplugin.core.allocations import Allocation, Enforcement
from gpushare.deviceplugin.core.decision import Capabilities
from gpushare.deviceplugin.core.limits import is_limited
from gpushare.deviceplugin.isolation.files import EnforcementFiles, MpsStatus
from gpushare.deviceplugin.metrics import PluginMetrics
from gpushare.deviceplugin.node.record import Record
from gpushare.deviceplugin.node.state import NodeState
from gpushare.errors import ConfigError
from gpushare.isolation.layout import LAUNCH_LIBRARY, LIBRARY, DirectoryOwner
from gpushare.model.modes import Mode
from gpushare.model.options import DeviceListStrategy

log = structlog.get_logger()

_RETRY_S: Final = 5.0
RIGHT: Final = "isolation"
"""Value of the label ``right`` in the reduced mode metric."""


class EnforcementManager:
    """Enforces the limits of one node state. ``paces``: whether a pacer sets launch rates."""

    def __init__(
        self,
        node_state: NodeState,
        record: Record,
        places: EnforcementFiles,
        controls: MpsStatus,
        metrics: PluginMetrics,
        *,
        paces: bool = False,
    ) -> None:
        self._node_state = node_state
        self._record = record
        self._places = places
        self._controls = controls
        self._metrics = metrics
        self._paces = paces
        self._missing: frozenset[str] = frozenset()

    def capabilities(self, strategy: DeviceListStrategy) -> Capabilities:
        """What the node can enforce now. Reads the disk: the library's version and the MPS ready locks."""
        allocations = self._node_state.allocations
        library = self._places.library() if is_limited(allocations) and self._places.visible else None
        mps = allocations.mode is Mode.MPS and self._controls.visible
        ready = (card.uuid for card in allocations.cards if mps and self._controls.up(card.uuid))
        return Capabilities(
            isolation=self._places.visible,
            library=library,
            launches=library is not None and self._paces_launches(library),
            mps=self._controls.visible,
            mps_gpus=frozenset(ready),
            strategy=strategy,
            libraries_dir=str(self._places.folders.libraries),
            mps_dir=str(self._controls.folders.state),
        )

    def _paces_launches(self, library: str) -> bool:
        if not self._paces or self._node_state.allocations.mode is not Mode.CORE_MEM:
            return False
        found = self._places.has(library, LAUNCH_LIBRARY)
        if not found:
            log.warning("launches_not_limited", version=library, reason=f"it has no {LAUNCH_LIBRARY}")
        return found

    async def write(self, grant: Allocation) -> None:
        """Have a grant that was taken in on the disk, and what holds it. Raises ConfigError."""
        if grant.enforcement:
            self._places.create(grant.enforcement)
        await self._record.write(lambda: self._node_state.allocations.by_container)

    async def run(self) -> None:
        """Keep the limit files in step with the allocations until cancelled."""
        kept = None
        while True:
            grants = self._node_state.allocations.by_container
            if grants is kept or not self._places.visible:
                await self._node_state.changed()
            elif self.sync():
                kept = grants
            else:
                await asyncio.sleep(_RETRY_S)

    def sync(self) -> bool:
        """Write and remove files once; returns whether all succeeded.

        Files are removed only when all pods of the node are known.
        """
        certain = self._node_state.is_complete
        holds = self.holds
        try:
            self._places.sync(holds, clear=certain)
        except ConfigError as error:
            self._metrics.reduced.labels(RIGHT).set(1)
            log.warning("places_not_kept", reason=str(error))
            return False
        self._tell_missing(holds.values())
        return True

    @property
    def holds(self) -> Mapping[DirectoryOwner, Enforcement]:
        """What holds containers now."""
        grants = self._node_state.allocations.by_container.values()
        return {
            DirectoryOwner(grant.uid, grant.container): grant.enforcement
            for grant in grants
            if grant.enforcement
        }

    @property
    def cards(self) -> frozenset[str]:
        """UUIDs of the cards that containers are held on now."""
        grants = self._node_state.allocations.by_container.values()
        return frozenset(uuid for grant in grants if grant.enforcement for uuid, _ in grant.cards)

    def _tell_missing(self, holds: Iterable[Enforcement]) -> None:
        """Report missing library versions: container runtimes would start containers without them."""
        given = {(hold.library, hold.launches) for hold in holds}
        missing = frozenset(
            version
            for version, launches in given
            if not self._places.has(version, LAUNCH_LIBRARY if launches else LIBRARY)
        )
        if missing - self._missing:
            log.error(
                "library_gone",
                versions=sorted(missing),
                folder=str(self._places.folders.libraries),
                effect="containers that have it and start again are not held to their amounts",
            )
        self._missing = missing
        self._metrics.reduced.labels(RIGHT).set(int(bool(missing)))
