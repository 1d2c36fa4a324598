"""Pods that do not exist because their controller may not create them, as its events say.

Quotas, limit ranges and admission refuse a pod before it exists: no pod has a reason then.
"""

from collections.abc import Iterable
from typing import Final
from urllib.parse import quote

from msgspec import Struct, field

from gpushare.adapters.kube.client import KubeClient
from gpushare.errors import ApiError
from gpushare.overview.lists import decoded, if_allowed, listed
from gpushare.overview.pod_events import PodEvent

_EVENTS: Final = "/api/v1/events"
_FAILED: Final = "reason=FailedCreate"


class _Involved(Struct):
    kind: str = ""
    namespace: str = ""
    name: str = ""


class FailedCreate(PodEvent, rename="camel"):
    """An event of a controller that could not create a pod."""

    involved_object: _Involved = field(default_factory=_Involved)


async def uncreated(client: KubeClient, name: str, namespace: str | None) -> str:
    """Why the pods of a workload do not exist; empty if no event says so, or events may not be read."""
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/events" if namespace else _EVENTS
    try:
        raws = await if_allowed(listed(client, path, {"fieldSelector": _FAILED}))
    except ApiError:
        return ""
    return "" if isinstance(raws, ApiError) else reason_of(decoded(raws, FailedCreate, path), name)


def reason_of(events: Iterable[FailedCreate], name: str) -> str:
    """The last such reason of the workload with that name, of one that it made, or of the pod's own one."""
    found = [each for each in events if _concerns(each.involved_object.name, name)]
    if not found:
        return ""
    last = max(found, key=lambda each: each.seen_at)
    return f"{last.involved_object.kind} {last.involved_object.name} cannot create pods: {last.message}"


def _concerns(controller: str, name: str) -> bool:
    """Names that Kubernetes makes have one part more than those of their owners, without a hyphen."""
    longer, _, part = max(controller, name, key=len).rpartition("-")
    return controller == name or (bool(part) and longer == min(controller, name, key=len))
