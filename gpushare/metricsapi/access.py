"""Access of clients: authentication by the front proxy's CA, authorization by access reviews.

The CA is in the API server's ConfigMap. A change of it, or of the server's certificate, applies from the next
connection on.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import structlog

from gpushare.adapters.kube.reviews import Caller, spec_of
from gpushare.contract import AUTHENTICATION_CONFIG
from gpushare.errors import ApiError, InvalidRequest
from gpushare.metricsapi.identity import FrontProxy, front_proxy_of
from gpushare.metricsapi.metrics import ApiMetrics
from gpushare.metricsapi.paths import Attributes
from gpushare.runtime.cache import FetchCache
from gpushare.runtime.tls import RELOAD_S, ServerTls

log = structlog.get_logger()

_KEEP_S: Final = 10.0
"""API servers cache reviews as long by default; errors are cached too."""

Review = Callable[[Mapping[str, Any]], Awaitable[bool]]


class ServerAuth:
    """``tls`` accepts clients of the front proxy's CA. ``front`` is None until the ConfigMap has been read.

    Raises ConfigError if the files are unusable at the start.
    """

    def __init__(self, cert: str, key: str, *, reload_s: float = RELOAD_S) -> None:
        self.front: FrontProxy | None = None
        self.problem: str | None = f"ConfigMap {AUTHENTICATION_CONFIG} has not been read yet"
        self.tls = ServerTls(cert, key, lambda: self.front.ca if self.front else "", reload_s=reload_s)

    def update(self, configs: Mapping[str, Mapping[str, str]]) -> None:
        """Apply the ConfigMap; an invalid one leaves the previous front proxy in place."""
        try:
            self.front = front_proxy_of(configs.get(AUTHENTICATION_CONFIG, {}))
        except InvalidRequest as error:
            if self.problem != str(error):
                log.warning("front_proxy_unknown", reason=str(error))
            self.problem = None if self.front else str(error)
            return
        self.problem = None
        self.tls.reload()


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
        "group": attributes.group,
        "version": attributes.version,
        "verb": attributes.verb,
        "namespace": attributes.namespace,
        "resource": attributes.resource,
        "subresource": attributes.subresource,
        "name": attributes.name,
    }
    return spec_of(caller, resourceAttributes=resource)
