"""Events as the API has them: one way to write them for all daemons."""

import datetime as dt
from typing import Any, Final

from gpushare.adapters.kube.client import KubeClient
from gpushare.ports import Event

_TIMEOUT_S: Final = 5.0
_MAX_NAME: Final = 200
_MAX_NOTE: Final = 1024


async def write_event(client: KubeClient, note: Event, *, component: str, identity: str) -> None:
    """POST an Event; one about a node goes to the default namespace. Raises ApiError.

    ``component`` is who says it, ``identity`` which of its replicas.
    """
    namespace = note.namespace or "default"
    body = _event(note, namespace, component, identity, dt.datetime.now(dt.UTC))
    path = f"/api/v1/namespaces/{namespace}/events"
    await client.request("POST", path, timeout_s=_TIMEOUT_S, body=body)


def _event(note: Event, namespace: str, component: str, identity: str, now: dt.datetime) -> dict[str, Any]:
    at = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    name = f"{note.name[:_MAX_NAME].rstrip('-.')}.{int(now.timestamp() * 1e6):x}"
    about = {
        "apiVersion": "v1",
        "kind": note.kind,
        "namespace": note.namespace,
        "name": note.name,
        "uid": note.uid,
    }
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": {key: value for key, value in about.items() if value},
        "reason": note.reason,
        "message": note.text[:_MAX_NOTE],
        "type": "Warning" if note.warning else "Normal",
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
        "source": {"component": component},
        "reportingComponent": component,
        "reportingInstance": identity,
    }
