"""Kubernetes Events in the format of the API, for all daemons."""

import datetime as dt
from typing import Any, Final

from gpushare.adapters.kube.client import KubeClient
from gpushare.ports import KubeEvent

_TIMEOUT_S: Final = 5.0
_MAX_NAME: Final = 200
_MAX_NOTE: Final = 1024


async def write_event(client: KubeClient, event: KubeEvent, *, component: str, identity: str) -> None:
    """POST an Event; events about nodes are in the default namespace. Raises ApiError.

    ``component`` is the reporting daemon, ``identity`` its replica.
    """
    namespace = event.namespace or "default"
    body = _event(event, namespace, component, identity, dt.datetime.now(dt.UTC))
    path = f"/api/v1/namespaces/{namespace}/events"
    await client.request("POST", path, timeout_s=_TIMEOUT_S, body=body)


def _event(
    event: KubeEvent, namespace: str, component: str, identity: str, now: dt.datetime
) -> dict[str, Any]:
    at = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    name = f"{event.name[:_MAX_NAME].rstrip('-.')}.{int(now.timestamp() * 1e6):x}"
    involved = {
        "apiVersion": "v1",
        "kind": event.kind,
        "namespace": event.namespace,
        "name": event.name,
        "uid": event.uid,
    }
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": {key: value for key, value in involved.items() if value},
        "reason": event.reason,
        "message": event.text[:_MAX_NOTE],
        "type": "Warning" if event.warning else "Normal",
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
        "source": {"component": component},
        "reportingComponent": component,
        "reportingInstance": identity,
    }
