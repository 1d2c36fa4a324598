"""What the extender last said about a pod: its event, which every user of the namespace may read."""

from typing import Final
from urllib.parse import quote

from msgspec import Struct, field

from gpushare.adapters.kube.client import KubeClient
from gpushare.contract import EVENT_MALFORMED, EVENT_REFUSED
from gpushare.overview.lists import decoded, listed

_TELLING: Final = (EVENT_REFUSED, EVENT_MALFORMED)


class _Series(Struct, rename="camel"):
    last_observed_time: str = ""


class PodEvent(Struct, rename="camel"):
    """An event about a pod."""

    reason: str = ""
    message: str = ""
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    event_time: str | None = None
    series: _Series | None = field(default=None)

    @property
    def seen_at(self) -> str:
        """When it was last seen, in RFC 3339."""
        repeated = self.series.last_observed_time if self.series else ""
        return repeated or self.last_timestamp or self.event_time or self.first_timestamp or ""


async def last_refusal(client: KubeClient, namespace: str, uid: str) -> str:
    """Why the extender last refused the pod; empty if no event says so. Raises ApiError."""
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/events"
    events = decoded(
        await listed(client, path, {"fieldSelector": f"involvedObject.uid={uid}"}), PodEvent, path
    )
    telling = [each for each in events if each.reason in _TELLING]
    return max(telling, key=lambda each: each.seen_at).message if telling else ""
