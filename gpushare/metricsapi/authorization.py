"""Authorization of clients with SubjectAccessReviews, cached briefly."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from gpushare.adapters.kube.reviews import Caller, spec_of
from gpushare.contract import METRICS_API_GROUP
from gpushare.errors import ApiError
from gpushare.metricsapi.metrics import ApiMetrics
from gpushare.metricsapi.paths import Attributes
from gpushare.runtime.cache import FetchCache

_KEEP_S: Final = 10.0
"""API servers cache reviews as long by default; errors are cached too."""

Review = Callable[[Mapping[str, Any]], Awaitable[bool]]


class Authorizer:
    """``review`` posts the spec of a SubjectAccessReview to the API server."""

    def __init__(self, review: Review, metrics: ApiMetrics) -> None:
        self._review = review
        self._metrics = metrics
        self._recent: FetchCache[tuple[Caller, Attributes], bool] = FetchCache(self._fetch_verdict, _KEEP_S)

    async def allowed(self, caller: Caller, attributes: Attributes) -> bool:
        """Return whether the request is allowed. Raises ApiError if the review fails."""
        return await self._recent.get((caller, attributes))

    async def _fetch_verdict(self, what: tuple[Caller, Attributes]) -> bool:
        try:
            verdict = await self._review(review_spec(*what))
        except ApiError:
            self._metrics.reviews.labels("error").inc()
            raise
        self._metrics.reviews.labels("allowed" if verdict else "denied").inc()
        return verdict


def review_spec(caller: Caller, attributes: Attributes) -> dict[str, Any]:
    """Return the spec of the SubjectAccessReview."""
    if attributes.path:
        return spec_of(caller, nonResourceAttributes={"path": attributes.path, "verb": attributes.verb})
    resource = {
        "group": METRICS_API_GROUP,
        "version": attributes.version,
        "verb": attributes.verb,
        "namespace": attributes.namespace,
        "resource": attributes.resource,
        "subresource": attributes.subresource,
        "name": attributes.name,
    }
    return spec_of(caller, resourceAttributes=resource)
