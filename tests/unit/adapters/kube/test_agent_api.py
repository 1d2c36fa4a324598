"""The requests of a node agent, as a server on loopback receives them."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web

from gpushare.adapters.kube.agent_api import KubeAgentApi
from gpushare.contract import EVENT_CARD_UNHEALTHY, EVENT_NOT_SERVING
from gpushare.errors import ApiError
from gpushare.ports import node_event, pod_event
from tests.support.builders.scheduling import pod
from tests.unit.adapters.fakes import Answer, Served, fixed, serving

MERGE = "application/merge-patch+json"
POD = pod("uid-1", name="p")
POD_PATH = "/api/v1/namespaces/default/pods/p"
CONFIGMAPS = "/api/v1/namespaces/kube-system/configmaps"
OTHER_UID = 'Pod "p" is invalid: metadata.uid: Invalid value: "uid-1": field is immutable'


def status(code: int, message: str = "no", reason: str = "") -> Answer:
    return fixed(code, json.dumps({"kind": "Status", "message": message, "reason": reason}))


@dataclass
class Wire:
    """What was sent."""

    seen: list[tuple[str, str, str, Any]] = field(default_factory=list)

    def then(self, *answers: Answer) -> list[Answer]:
        return [self._noted(answer) for answer in answers]

    def _noted(self, answer: Answer) -> Answer:
        async def noted(request: web.Request) -> web.StreamResponse:
            body = await request.json() if request.can_read_body else None
            self.seen.append((request.method, request.path, request.content_type, body))
            return await answer(request)

        return noted

    @property
    def lines(self) -> list[str]:
        return [f"{method} {path}" for method, path, _, _ in self.seen]


async def exchange(call: Callable[[KubeAgentApi], Awaitable[Any]], *answers: Answer) -> tuple[Wire, Any]:
    """Run one call with these answers; returns the requests and its result."""
    wire = Wire()
    async with serving() as served:
        served.script.extend(wire.then(*answers))
        returned = await call(agent(served))
        assert not served.script
        return wire, returned


def agent(served: Served) -> KubeAgentApi:
    return KubeAgentApi(served.client, node="n", identity="agent-1")


async def test_metadata_and_status_of_the_node_are_one_write_through_its_status() -> None:
    patch = {"metadata": {"annotations": {"a": "b", "c": None}}, "status": {"capacity": {"x": 1}}}
    wire, _ = await exchange(lambda api: api.patch_node(patch), fixed(200, "{}"))
    assert wire.seen == [("PATCH", "/api/v1/nodes/n/status", MERGE, patch)]


async def test_taints_are_removed_by_a_json_patch_of_the_node() -> None:
    operations = [{"op": "remove", "path": "/spec/taints/0"}]
    wire, _ = await exchange(lambda api: api.remove_taints(operations), fixed(200, "{}"))
    assert wire.seen == [("PATCH", "/api/v1/nodes/n", "application/json-patch+json", operations)]


async def test_a_pod_is_patched_with_its_uid() -> None:
    wire, _ = await exchange(lambda api: api.patch_pod(POD, {"a": "b", "c": None}), fixed(200, "{}"))
    body = {"metadata": {"uid": "uid-1", "annotations": {"a": "b", "c": None}}}
    assert wire.seen == [("PATCH", f"{POD_PATH}/status", MERGE, body)]


async def test_a_pod_whose_status_may_not_be_patched_is_patched_itself_from_then_on() -> None:
    wire = Wire()
    async with serving() as served:
        served.script.extend(wire.then(status(403), fixed(200, "{}"), fixed(200, "{}")))
        api = agent(served)
        await api.patch_pod(POD, {"a": "1"})
        await api.patch_pod(POD, {"a": "2"})
    assert wire.lines == [f"PATCH {POD_PATH}/status", f"PATCH {POD_PATH}", f"PATCH {POD_PATH}"]
    assert wire.seen[2][3]["metadata"]["annotations"] == {"a": "2"}


async def test_a_permission_that_changes_later_is_found_by_trying_both_paths() -> None:
    wire = Wire()
    async with serving() as served:
        answers = (status(403), fixed(200, "{}"), status(403), fixed(200, "{}"), fixed(200, "{}"))
        served.script.extend(wire.then(*answers))
        api = agent(served)
        for _ in range(3):
            await api.patch_pod(POD, {"a": "1"})
    assert [line.endswith("/status") for line in wire.lines] == [True, False, False, True, True]


async def test_a_pod_that_may_not_be_patched_at_all_is_an_error_with_the_first_reason() -> None:
    answers = status(403, "not its status"), status(403, "nor the pod")
    with pytest.raises(ApiError, match="not its status") as caught:
        await exchange(lambda api: api.patch_pod(POD, {}), *answers)
    assert caught.value.status == 403


@pytest.mark.parametrize("by_status", [False, True])
async def test_a_pod_with_that_name_and_another_uid_is_gone(*, by_status: bool) -> None:
    answers = [status(403)] * by_status + [status(422, OTHER_UID, "Invalid")]
    with pytest.raises(ApiError, match="field is immutable") as caught:
        await exchange(lambda api: api.patch_pod(POD, {}), *answers)
    assert (caught.value.status, caught.value.clear) == (404, True)


@pytest.mark.parametrize(
    ("code", "message"), [(422, "metadata.annotations: Too long"), (409, "the object has been modified")]
)
async def test_other_refusals_are_passed_on(code: int, message: str) -> None:
    with pytest.raises(ApiError, match=message) as caught:
        await exchange(lambda api: api.patch_pod(POD, {}), status(code, message))
    assert caught.value.status == code


async def test_the_list_of_unhealthy_gpus_is_patched() -> None:
    wire, _ = await exchange(lambda api: api.write_unhealthy("0,2"), fixed(200, "{}"))
    assert wire.seen == [("PATCH", f"{CONFIGMAPS}/unhealthy-gpu-n", MERGE, {"data": {"gpus": "0,2"}})]


async def test_a_missing_list_is_created() -> None:
    wire, _ = await exchange(lambda api: api.write_unhealthy("0"), status(404), fixed(201, "{}"))
    assert wire.lines[1] == f"POST {CONFIGMAPS}"
    assert wire.seen[1][3]["metadata"] == {"name": "unhealthy-gpu-n"}
    assert wire.seen[1][3]["data"] == {"gpus": "0"}


async def test_an_empty_list_is_not_made() -> None:
    wire, _ = await exchange(lambda api: api.write_unhealthy(""), status(404))
    assert len(wire.seen) == 1


async def test_a_list_that_may_not_be_written_is_an_error() -> None:
    with pytest.raises(ApiError) as caught:
        await exchange(lambda api: api.write_unhealthy("0"), status(403))
    assert caught.value.status == 403


def names(*found: str, then: str = "") -> Answer:
    items = [{"metadata": {"name": name}} for name in found]
    return fixed(200, json.dumps({"metadata": {"continue": then}, "items": items}))


async def test_the_names_of_all_nodes_come_page_by_page() -> None:
    _, found = await exchange(lambda api: api.node_names(), names("a", "b", then="more"), names("c"))
    assert found == ("a", "b", "c")


async def test_a_list_of_nodes_that_cannot_be_read_is_an_error() -> None:
    with pytest.raises(ApiError, match="the list of nodes cannot be read"):
        await exchange(lambda api: api.node_names(), fixed(200, "<html>"))


async def test_an_event_about_a_pod_is_in_the_namespace_of_the_pod() -> None:
    note = pod_event(POD, EVENT_NOT_SERVING, "text", warning=True)
    wire, _ = await exchange(lambda api: api.write_event(note), fixed(201, "{}"))
    (method, path, _, body), *_ = wire.seen
    assert (method, path) == ("POST", "/api/v1/namespaces/default/events")
    assert (body["apiVersion"], body["kind"]) == ("v1", "Event")
    assert body["involvedObject"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": "default",
        "name": "p",
        "uid": "uid-1",
    }
    assert (body["reason"], body["message"], body["type"]) == (EVENT_NOT_SERVING, "text", "Warning")
    assert body["source"] == {"component": "gpushare-device-plugin"}
    assert (body["reportingComponent"], body["reportingInstance"]) == ("gpushare-device-plugin", "agent-1")


async def test_an_event_about_a_node_is_in_the_default_namespace_and_truncated() -> None:
    note = node_event("n", EVENT_CARD_UNHEALTHY, "x" * 5000)
    wire, _ = await exchange(lambda api: api.write_event(note), fixed(201, "{}"))
    body = wire.seen[0][3]
    assert body["metadata"]["namespace"] == "default"
    assert body["metadata"]["name"].startswith("n.")
    assert "namespace" not in body["involvedObject"]
    assert len(body["message"]) == 1024
