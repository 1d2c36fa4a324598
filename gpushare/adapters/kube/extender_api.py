"""API requests of the extender: bind, evictions, pods, events, the Lease and the seal key."""

import base64
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, Final, TypeVar

import msgspec

from gpushare.adapters.kube.client import KubeClient
from gpushare.adapters.kube.decoding import decode, decode_in_turns
from gpushare.adapters.kube.events import write_event
from gpushare.adapters.kube.secrets import read_or_create, secret_path
from gpushare.adapters.kube.wire import BareMeta, LabelledMeta, WirePod, any_pod_of
from gpushare.contract import EXTENDER_NAME, SEAL_SECRET, SEAL_SECRET_KEY, SYSTEM_NAMESPACE
from gpushare.errors import ApiError
from gpushare.model.objects import Pod
from gpushare.ports import Fence, KubeEvent, LeaseRecord, StoredKey

T = TypeVar("T")

_TIMEOUT_S: Final = 5.0
_ADDRESS: Final = "gpushare.io/address"
_BINDS: Final = "gpushare.io/binds"
_QUIET: Final = "none"
_OPEN: Final = "open"
_pod: Final = msgspec.json.Decoder(WirePod)


class _Managed(msgspec.Struct, rename={"fields": "fieldsV1"}):
    """The fields that one manager has set, and when it last changed them."""

    time: str = ""
    fields: dict[str, Any] = msgspec.field(default_factory=dict)


class _SecretMeta(BareMeta, rename="camel"):
    creation_timestamp: str = ""
    managed_fields: list[_Managed] = msgspec.field(default_factory=list)


class _Secret(msgspec.Struct):
    metadata: _SecretMeta
    data: dict[str, str] | None = None


class _LeaseSpec(msgspec.Struct, rename="camel"):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class _Lease(msgspec.Struct):
    metadata: LabelledMeta
    spec: _LeaseSpec = msgspec.field(default_factory=_LeaseSpec)


class KubeExtenderApi:
    """Implements ``gpushare.extender.api.ExtenderApi``."""

    def __init__(self, client: KubeClient, *, lease_name: str, identity: str) -> None:
        self._client = client
        self._leases = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM_NAMESPACE}/leases"
        self._lease_name = lease_name
        self._identity = identity

    async def bind(
        self, pod: Pod, node: str, annotations: Mapping[str, str], *, timeout_s: float, fence: Fence
    ) -> None:
        """POST the Binding. The API server gives up after ``timeout_s`` too, in versions from 1.21 on."""
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {
                "name": pod.name,
                "namespace": pod.namespace,
                "uid": pod.uid,
                "annotations": dict(annotations),
            },
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        await self._client.request(
            "POST",
            f"{_pod_path(pod.namespace, pod.name)}/binding",
            timeout_s=timeout_s,
            query={"timeout": f"{timeout_s:g}s"},
            body=body,
            fence=fence,
        )

    async def evict(self, pod: Pod, *, timeout_s: float, fence: Fence) -> None:
        """POST the Eviction. The UID keeps another pod of the name from being evicted."""
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod.name, "namespace": pod.namespace},
            "deleteOptions": {"preconditions": {"uid": pod.uid}},
        }
        await self._client.request(
            "POST",
            f"{_pod_path(pod.namespace, pod.name)}/eviction",
            timeout_s=timeout_s,
            query={"timeout": f"{timeout_s:g}s"},
            body=body,
            fence=fence,
        )

    async def read_pod(self, namespace: str, name: str) -> Pod | None:
        """GET the pod without a resourceVersion, which is a quorum read."""
        body = await self._get(_pod_path(namespace, name))
        if body is None:
            return None
        with _decoding():
            return any_pod_of(await decode_in_turns(_pod, body))

    async def write_event(self, event: KubeEvent) -> None:
        """POST an Event."""
        await write_event(self._client, event, component=EXTENDER_NAME, identity=self._identity)

    async def read_lease(self) -> LeaseRecord | None:
        """GET the Lease."""
        body = await self._get(f"{self._leases}/{self._lease_name}")
        return None if body is None else _record(body)

    async def read_key(self) -> StoredKey:
        """GET the Secret, or create it without a key."""
        body = await read_or_create(self._client, SYSTEM_NAMESPACE, SEAL_SECRET, timeout_s=_TIMEOUT_S)
        return _stored_key(body)

    async def write_key(self, key: bytes, version: str) -> StoredKey:
        """PATCH that version of the Secret, and make it immutable."""
        secret = {
            "metadata": {"resourceVersion": version},
            "immutable": True,
            "data": {SEAL_SECRET_KEY: base64.b64encode(key).decode()},
        }
        path = secret_path(SYSTEM_NAMESPACE, SEAL_SECRET)
        body = await self._client.request("PATCH", path, timeout_s=_TIMEOUT_S, body=secret)
        return _stored_key(body)

    async def write_lease(self, record: LeaseRecord) -> LeaseRecord:
        """POST a new Lease, or PUT over the version that was read."""
        method, path = (
            ("PUT", f"{self._leases}/{self._lease_name}") if record.version else ("POST", self._leases)
        )
        body = await self._client.request(method, path, timeout_s=_TIMEOUT_S, body=self._lease(record))
        return _record(body)

    async def _get(self, path: str) -> bytes | None:
        """Return the object's JSON; None if it does not exist."""
        try:
            return await self._client.request("GET", path, timeout_s=_TIMEOUT_S)
        except ApiError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return None
            raise

    def _lease(self, record: LeaseRecord) -> dict[str, Any]:
        annotations = {_ADDRESS: record.address, _BINDS: _QUIET if record.quiet else _OPEN}
        metadata: dict[str, Any] = {"name": self._lease_name, "annotations": annotations}
        if record.version:
            metadata["resourceVersion"] = record.version
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": metadata,
            "spec": {
                "holderIdentity": record.holder,
                "leaseDurationSeconds": record.duration_s,
                "renewTime": record.renewed,
                "leaseTransitions": record.transitions,
            },
        }


def _decoded(body: bytes, kind: type[T]) -> T:
    with _decoding():
        return decode(msgspec.json.Decoder(kind), body)


@contextmanager
def _decoding() -> Iterator[None]:
    try:
        yield
    except msgspec.DecodeError as error:
        raise ApiError(f"the API server's response cannot be read: {error}", reason="Unreadable") from error


def _pod_path(namespace: str, name: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods/{name}"


def _record(body: bytes) -> LeaseRecord:
    lease = _decoded(body, _Lease)
    spec = lease.spec
    annotations = lease.metadata.annotations or {}
    return LeaseRecord(
        holder=spec.holder_identity or "",
        address=annotations.get(_ADDRESS, ""),
        quiet=annotations.get(_BINDS) == _QUIET,
        duration_s=spec.lease_duration_seconds or 0,
        renewed=spec.renew_time or "",
        transitions=spec.lease_transitions or 0,
        version=lease.metadata.resource_version,
        uid=lease.metadata.uid,
    )


def _stored_key(body: bytes) -> StoredKey:
    """Decode the Secret. The API server accepts only valid base64."""
    secret = _decoded(body, _Secret)
    key = base64.b64decode((secret.data or {}).get(SEAL_SECRET_KEY, ""))
    return StoredKey(key, _written(secret.metadata), secret.metadata.resource_version)


def _written(meta: _SecretMeta) -> str:
    """When the key was last written. Without managed fields the creation time, which may be earlier."""
    times = [
        each.time for each in meta.managed_fields if f"f:{SEAL_SECRET_KEY}" in each.fields.get("f:data", {})
    ]
    return max(times, default=meta.creation_timestamp)
