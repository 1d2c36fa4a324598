"""From watches to the household: this node's pods, and the node itself."""

import asyncio
from collections.abc import Callable, Iterable

import structlog

from gpushare.adapters.kube.watch import Deleted, Upserted
from gpushare.deviceplugin.household import Household
from gpushare.errors import ApiError
from gpushare.model.facts import NodeFacts
from gpushare.model.tenants import Resident

log = structlog.get_logger()


class _Intake:
    """What listeners have in common: when their list is complete, and what the API refuses."""

    def __init__(self) -> None:
        self.listed = asyncio.Event()
        self.trouble: str | None = "not listed yet"

    def synced(self, resource: str) -> None:
        """The list has been taken in."""
        log.info("listed", resource=resource)
        self.trouble = None
        self.listed.set()

    def troubled(self, resource: str, error: ApiError, retry_in_s: float) -> None:
        """The API refuses, or does not answer; what is known stays in use."""
        if self.trouble != str(error):
            log.warning("watch_restarted", resource=resource, reason=str(error), retry_s=retry_in_s)
        self.trouble = str(error)


class PodIntake(_Intake):
    """Listens to the pods of this node."""

    def __init__(self, household: Household) -> None:
        super().__init__()
        self._household = household

    def changed(self, batch: Iterable[Upserted[Resident] | Deleted]) -> None:
        """Take in pods."""
        self._household.take_residents(batch)


class NodeIntake(_Intake):
    """Listens to this node. ``take`` gets what the API shows of it."""

    def __init__(self, take: Callable[[NodeFacts], None]) -> None:
        super().__init__()
        self._take = take
        self.found = False

    def changed(self, batch: Iterable[Upserted[NodeFacts] | Deleted]) -> None:
        """Take in the node. Its deletion changes nothing here: what runs still runs."""
        for change in batch:
            if isinstance(change, Upserted):
                self.found = True
                self._take(change.value)
