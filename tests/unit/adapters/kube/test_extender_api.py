"""The requests of the extender, as the API server receives them."""

import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import pytest
from aiohttp import web

from gpushare.adapters.kube.extender_api import KubeExtenderApi
from gpushare.errors import ApiError
from gpushare.ports import LeaseRecord, StoredKey
from tests.support.builders.scheduling import pod
from tests.unit.adapters.fakes import Answer, fixed, serving

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
SEAL = "/api/v1/namespaces/kube-system/secrets/gpushare-schd-extender-seal"
RECORD = LeaseRecord(
    "me", "10.0.0.1:39999", 15, "2026-01-01T00:00:00.000000Z", 3, "7", "lease-uid", quiet=True
)
STORED: dict[str, Any] = {
    "metadata": {
        "name": "extender",
        "uid": "lease-uid",
        "resourceVersion": "7",
        "annotations": {"gpushare.io/address": "10.0.0.1:39999", "gpushare.io/binds": "none"},
    },
    "spec": {
        "holderIdentity": "me",
        "leaseDurationSeconds": 15,
        "renewTime": "2026-01-01T00:00:00.000000Z",
        "leaseTransitions": 3,
    },
}


class Sent(NamedTuple):
    """One request."""

    method: str
    path: str
    query: dict[str, str]
    body: Any


@asynccontextmanager
async def extender(*answers: Answer) -> AsyncIterator[tuple[KubeExtenderApi, list[Sent]]]:
    sent: list[Sent] = []

    def noting(answer: Answer) -> Answer:
        async def noted(request: web.Request) -> web.StreamResponse:
            body = await request.json() if request.can_read_body else None
            sent.append(Sent(request.method, request.path, dict(request.query), body))
            return await answer(request)

        return noted

    async with serving() as served:
        served.script.extend(map(noting, answers))
        yield (
            KubeExtenderApi(served.client, lease_name="extender", identity="me"),
            sent,
        )


def stored(value: dict[str, Any]) -> Answer:
    return fixed(200, json.dumps(value))


async def test_a_binding_has_the_uid_of_the_pod_and_a_timeout_for_the_api_server() -> None:
    """Without the UID it would also bind a pod of the same name that was created meanwhile."""
    async with extender(fixed(201, b"{}")) as (api, sent):
        await api.bind(pod("a", 4), "n", {"gpushare.io/seal": "s"}, timeout_s=2.5, fence=lambda: None)
    metadata = {"name": "a", "namespace": "default", "uid": "a", "annotations": {"gpushare.io/seal": "s"}}
    assert sent == [
        Sent(
            "POST",
            "/api/v1/namespaces/default/pods/a/binding",
            {"timeout": "2.5s"},
            {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": metadata,
                "target": {"apiVersion": "v1", "kind": "Node", "name": "n"},
            },
        )
    ]


async def test_a_closed_fence_sends_no_binding() -> None:
    async with extender(fixed(201, b"{}")) as (api, sent):
        with pytest.raises(ApiError, match="not the leader"):
            await api.bind(pod("a", 4), "n", {}, timeout_s=1, fence=lambda: "not the leader")
    assert sent == []


async def test_a_pod_is_read_from_etcd_and_not_from_the_cache_of_the_api_server() -> None:
    """A read with a resourceVersion may be answered from the watch cache, which may be behind."""
    found = {"metadata": {"name": "a", "namespace": "default", "uid": "u"}, "spec": {"nodeName": "n"}}
    async with extender(stored(found)) as (api, sent):
        read = await api.read_pod("default", "a")
    assert read is not None
    assert (read.uid, read.node) == ("u", "n")
    assert sent == [Sent("GET", "/api/v1/namespaces/default/pods/a", {}, None)]


@pytest.mark.parametrize("read", [lambda api: api.read_pod("default", "a"), KubeExtenderApi.read_lease])
async def test_an_object_that_does_not_exist_is_none(read: Any) -> None:
    async with extender(fixed(404)) as (api, _):
        assert await read(api) is None


async def test_a_lease_is_replaced_only_in_the_version_that_was_read() -> None:
    async with extender(stored(STORED), stored(STORED)) as (api, sent):
        assert await api.read_lease() == RECORD
        assert await api.write_lease(RECORD) == RECORD
    read, written = sent
    assert read == Sent("GET", f"{LEASES}/extender", {}, None)
    assert (written.method, written.path) == ("PUT", f"{LEASES}/extender")
    assert written.body["metadata"] == {
        "name": "extender",
        "resourceVersion": "7",
        "annotations": STORED["metadata"]["annotations"],
    }
    assert written.body["spec"] == STORED["spec"]


async def test_a_new_lease_is_created() -> None:
    async with extender(stored(STORED)) as (api, sent):
        await api.write_lease(LeaseRecord("me", "10.0.0.1:39999", 15, "", 1))
    (written,) = sent
    assert (written.method, written.path) == ("POST", LEASES)
    assert written.body["metadata"]["annotations"]["gpushare.io/binds"] == "open"
    assert "resourceVersion" not in written.body["metadata"]


async def test_the_lease_of_an_older_version_is_not_quiet() -> None:
    older = {**STORED, "metadata": {**STORED["metadata"], "annotations": {}}}
    async with extender(stored(older)) as (api, _):
        found = await api.read_lease()
    assert found is not None
    assert not found.quiet


KEY = base64.b64encode(b"secret").decode()
META = {"name": "s", "creationTimestamp": "2026-01-01T00:00:00Z", "resourceVersion": "7"}


def managed(at: str, field: str) -> dict[str, Any]:
    return {"manager": "m", "operation": "Update", "time": at, "fieldsV1": {"f:data": {".": {}, field: {}}}}


async def test_the_key_of_the_seals_is_as_old_as_its_last_write() -> None:
    times = [managed("2026-02-01T00:00:00Z", "f:key"), managed("2026-03-01T00:00:00Z", "f:other")]
    secret = {"metadata": {**META, "managedFields": times}, "data": {"key": KEY}}
    async with extender(stored(secret)) as (api, sent):
        assert await api.read_key() == StoredKey(b"secret", "2026-02-01T00:00:00Z", "7")
    assert sent == [Sent("GET", SEAL, {}, None)]


async def test_a_missing_secret_is_created_without_a_key() -> None:
    async with extender(fixed(404, b"{}"), stored({"metadata": META})) as (api, sent):
        assert await api.read_key() == StoredKey(b"", "2026-01-01T00:00:00Z", "7")
    assert [(each.method, each.path) for each in sent] == [("GET", SEAL), ("PATCH", SEAL)]
    assert "data" not in sent[1].body


async def test_without_managed_fields_the_key_is_as_old_as_its_secret() -> None:
    async with extender(stored({"metadata": META, "data": {"key": KEY}})) as (api, _):
        assert await api.read_key() == StoredKey(b"secret", "2026-01-01T00:00:00Z", "7")


@pytest.mark.parametrize("data", [{}, {"data": None}, {"data": {"other": KEY}}, {"data": {"key": ""}}])
async def test_a_secret_may_have_no_key_yet(data: dict[str, Any]) -> None:
    async with extender(stored({"metadata": META, **data})) as (api, _):
        assert await api.read_key() == StoredKey(b"", "2026-01-01T00:00:00Z", "7")


async def test_the_key_is_written_into_the_version_that_was_read_and_made_immutable() -> None:
    async with extender(stored({"metadata": META, "data": {"key": KEY}})) as (api, sent):
        await api.write_key(b"secret", "7")
    body = {"metadata": {"resourceVersion": "7"}, "immutable": True, "data": {"key": KEY}}
    assert sent == [Sent("PATCH", SEAL, {}, body)]
