"""Whether the caches are complete and current: for answers, for readiness, and for liveness."""

from collections.abc import Callable
from typing import Final

from gpushare.extender.handlers import SyncStatus

_UNREADY_S: Final = 30.0
"""Without a watch for longer than this, the extender is not ready; it still answers from what it knows."""
_OUTDATED_S: Final = 300.0
"""From then on, its answers are errors. The Lease has been lost for long, so no pod could be bound."""
_STUCK_S: Final = 600.0
"""From then on, the process should be started again: the reason may be in the process."""


class Freshness:
    """Implements ``Readiness``. ``lost_s`` are the seconds since a required watch was lost."""

    def __init__(self, sync_status: SyncStatus, lost_s: Callable[[], float]) -> None:
        self._sync_status = sync_status
        self._lost_s = lost_s

    def missing(self) -> str | None:
        """Why requests cannot be answered: what is not listed yet, or no longer current."""
        return self._sync_status.missing() or self._lost(_OUTDATED_S)

    def unready(self) -> str | None:
        """Why another replica should be asked."""
        return self._sync_status.missing() or self._lost(_UNREADY_S)

    def stuck(self) -> str | None:
        """Why the process should be started again. Not if the API server answers with errors."""
        return self._lost(_STUCK_S) if self._sync_status.unanswered else None

    def _lost(self, longest_s: float) -> str | None:
        lost_s = self._lost_s()
        if lost_s <= longest_s:
            return None
        problems = self._sync_status.problems()
        return f"the API server has not delivered changes for {lost_s:.0f} s: {problems}"
