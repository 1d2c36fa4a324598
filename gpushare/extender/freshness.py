"""Whether the caches are complete and current: for answers, for readiness, and for liveness."""

import asyncio
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Final

import structlog

from gpushare.errors import ApiError
from gpushare.extender.metrics import ExtenderMetrics

log = structlog.get_logger()

_REQUIRED: Final = ("nodes", "pods")
_WITHOUT: Final = {
    "configmaps": "the lists of unhealthy GPUs are unknown",
    "secrets": "bind annotations are accepted without a seal",
    "poddisruptionbudgets": "preempt adds victims without regard to disruption budgets",
}
"""The effects of missing rights to optional resources."""
WITHOUT_STATUS: Final = (
    HTTPStatus.FORBIDDEN,
    HTTPStatus.NOT_FOUND,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    HTTPStatus.UNPROCESSABLE_ENTITY,
)
"""No right, no server-side apply, or an immutable Secret without a key: waiting does not help."""
_UNREADY_S: Final = 30.0
"""Without a watch for longer than this, the extender is not ready; it still answers from what it knows."""
_OUTDATED_S: Final = 300.0
"""From then on, its answers are errors. The Lease has been lost for long, so no pod could be bound."""
_STUCK_S: Final = 600.0
"""From then on, the process should be started again: the reason may be in the process."""


class SyncStatus:
    """Which resources are listed.

    Only nodes and pods are required; ``_WITHOUT`` has the effects of the others.
    """

    def __init__(self, metrics: ExtenderMetrics) -> None:
        self._metrics = metrics
        self._listed: set[str] = set()
        self._problems: dict[str, str] = {}
        self._degraded: set[str] = set()
        self._unanswered: set[str] = set()
        self.synced_once = asyncio.Event()

    def missing(self) -> str | None:
        """The resources that are not listed yet, with the API server's errors; None once all are listed."""
        waiting = [name for name in _REQUIRED if name not in self._listed]
        if not waiting:
            return None
        # Pods are listed once the key of their seals is known.
        causes = [*waiting, "secrets"] if "pods" in waiting else waiting
        reasons = "; ".join(self._problems[name] for name in causes if name in self._problems)
        return f"the extender has not listed {' and '.join(waiting)} yet" + (
            f": {reasons}" if reasons else ""
        )

    def problems(self) -> str:
        """The last errors of the required resources."""
        return "; ".join(f"{name}: {self._problems[name]}" for name in _REQUIRED if name in self._problems)

    @property
    def unanswered(self) -> bool:
        """Whether the last request for a required resource had no answer."""
        return not self._unanswered.isdisjoint(_REQUIRED)

    def notices(self) -> Iterable[str]:
        """Which optional resources are missing, with the effect and the reason."""
        for name in sorted(self._degraded):
            yield f"degraded: {_WITHOUT[name]}: {self._problems[name]}"

    def synced(self, resource: str) -> None:
        """The list of a resource has been applied."""
        self._listed.add(resource)
        self._problems.pop(resource, None)
        self._degraded.discard(resource)
        self._unanswered.discard(resource)
        self._metrics.synced.labels(resource).set(1)
        self._metrics.degraded.labels(resource).set(0)
        if self.missing() is None:
            self.synced_once.set()

    def failed(self, resource: str, error: ApiError, retry_in_s: float) -> None:
        """A list or watch failed and is retried."""
        self._metrics.watch_restarts.labels(resource).inc()
        (self._unanswered.discard if error.status else self._unanswered.add)(resource)
        if error.status in WITHOUT_STATUS:
            self._metrics.degraded.labels(resource).set(1)
            if resource in _WITHOUT:
                self._degraded.add(resource)
        if self._problems.get(resource) != str(error):
            _log_failure(resource, error, retry_in_s)
        self._problems[resource] = str(error)


def _log_failure(resource: str, error: ApiError, retry_s: float) -> None:
    if error.status in WITHOUT_STATUS and resource in _WITHOUT:
        log.warning("degraded_mode", right=resource, effect=_WITHOUT[resource], reason=str(error))
    else:
        log.warning(
            "watch_restarted", resource=resource, status=error.status, reason=str(error), retry_s=retry_s
        )


class Freshness:
    """What the status and the age of the caches mean. ``lost_s``: seconds since a required watch was lost."""

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
