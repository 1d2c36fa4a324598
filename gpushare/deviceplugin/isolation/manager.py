"""Enforces limits on containers: writes their files before Allocate returns, removes them after the pod.

All calls come from one event loop, and nothing is awaited between reading the node state and writing files,
so a container directory that was just created is never removed.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final

import structlog

from gpushare.deviceplugin.core.allocations import Allocation, Enforcement
from gpushare.deviceplugin.core.decision import (
    Granted,
    no_library,
    no_mps,
    with_hold,
    with_part,
    without_hold,
)
from gpushare.deviceplugin.core.interface import Rejected
from gpushare.deviceplugin.core.limits import is_limited
from gpushare.deviceplugin.isolation.files import EnforcementFiles, MpsStatus
from gpushare.deviceplugin.metrics import PluginMetrics
from gpushare.deviceplugin.node.record import Record
from gpushare.deviceplugin.node.state import NodeState
from gpushare.errors import ConfigError
from gpushare.isolation.layout import LAUNCH_LIBRARY, LIBRARY, DirectoryOwner
from gpushare.model.modes import Mode

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

    def hold(self, granted: Granted) -> Granted | Rejected:
        """The decision with what will hold its container, where the node's containers are held."""
        served = self._served(granted)
        return served if isinstance(served, Rejected) else self._held(served)

    def _served(self, granted: Granted) -> Granted | Rejected:
        """The decision with its container's part by MPS, where the node shares its cards so."""
        allocations = self._node_state.allocations
        if not (allocations.mode is Mode.MPS and self._controls.visible):
            return granted
        served = with_part(allocations, granted)
        part = served.mps if isinstance(served, Granted) else None
        if part and not self._controls.up(part.card):
            return no_mps(allocations.node, granted.grant, part.card, str(self._controls.folders.state))
        return served

    def _held(self, granted: Granted) -> Granted | Rejected:
        allocations = self._node_state.allocations
        if not (is_limited(allocations) and self._places.visible):
            return without_hold(granted)
        library = self._places.library()
        if library is None:
            return no_library(allocations.node, granted.grant, str(self._places.folders.libraries))
        paces = self._paces and allocations.mode is Mode.CORE_MEM
        return with_hold(allocations, granted, library, launches=paces and self._has_launches(library))

    def _has_launches(self, library: str) -> bool:
        found = self._places.has(library, LAUNCH_LIBRARY)
        if not found:
            log.warning("launches_not_held", version=library, reason=f"it has no {LAUNCH_LIBRARY}")
        return found

    async def write(self, grant: Allocation) -> None:
        """Write the files of an allocation, then the record. Raises ConfigError."""
        if grant.hold:
            self._places.create(grant.hold)
        await self._record.write(lambda: self._node_state.allocations.grants)

    async def run(self) -> None:
        """Keep the limit files in step with the allocations until cancelled."""
        kept = None
        while True:
            grants = self._node_state.allocations.grants
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
        """The limited containers and their enforcement."""
        grants = self._node_state.allocations.grants.values()
        return {DirectoryOwner(grant.uid, grant.container): grant.hold for grant in grants if grant.hold}

    @property
    def cards(self) -> frozenset[str]:
        """UUIDs of the GPUs with limited containers."""
        grants = self._node_state.allocations.grants.values()
        return frozenset(uuid for grant in grants if grant.hold for uuid, _ in grant.cards)

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
