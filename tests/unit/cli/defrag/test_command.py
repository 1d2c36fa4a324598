"""``kubectl gpushare defrag`` against a fake of the API server."""

import io
from http import HTTPStatus
from typing import Any

import pytest

from gpushare.cli.defrag.apply import Run, Surprise
from gpushare.cli.defrag.collect import collect
from gpushare.cli.defrag.plan import planned
from gpushare.contract import ANN_SAFE_TO_EVICT, RESOURCE_COUNT, RESOURCE_MEM
from gpushare.overview.connection import ApiSource
from tests.support.builders.api_objects import Json, node, pod
from tests.unit.cli.fakes import Api, call, documented, refused

pytestmark = pytest.mark.asyncio


def bound(
    name: str, on: str, mem: int, *, index: str = "0", owner: str = "ReplicaSet", priority: int = 0
) -> Json:
    """A pod that a controller made."""
    found = pod(name, on, mem, index=index)
    found["metadata"]["labels"] |= {"app": name}
    found["spec"]["priority"] = priority
    if owner:
        reference = {"kind": owner, "name": f"{name}-set", "uid": f"{name}-set", "controller": True}
        found["metadata"]["ownerReferences"] = [reference]
    return found


def waiting(name: str, mem: int, *, priority: int = 0, **spec: Any) -> Json:
    """A pod that the scheduler could not place."""
    found = pod(name, None, mem, phase="Pending")
    found["spec"] |= {"priority": priority, **spec}
    found["status"]["conditions"] = [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "Insufficient"}
    ]
    return found


def two_nodes() -> list[Json]:
    return [node(name, {RESOURCE_MEM: 14, RESOURCE_COUNT: 1, "cpu": "8"}) for name in "ab"]


def fill(api: Api, *more: Json) -> None:
    """A pod of 6 on a, which fits on b too; a pod of 12 waits."""
    api.nodes = two_nodes()
    api.pods = [bound("small", "a", 6), bound("big", "b", 8), waiting("large", 12), *more]


async def rows(api: Api) -> list[list[str]]:
    code, out, _ = await call(api, "defrag")
    assert code == 0
    return [line.split() for line in out.splitlines()[1:]]


async def why(api: Api) -> str:
    """What is said if nothing helps."""
    code, out, err = await call(api, "defrag", "--plan")
    assert (code, out) == (0, "")
    return err


async def test_the_plan_says_who_moves_from_where_to_where_and_for_whom(api: Api) -> None:
    fill(api)
    assert await rows(api) == [["1", "default", "small", "0", "a", "b", "default/large", "fits", "elsewhere"]]
    assert api.evicted == []


async def test_the_plan_as_a_document(api: Api) -> None:
    fill(api)
    found = await documented(api, "defrag", "-o", "json")
    assert found["kind"] == "GpuDefragPlan"
    (item,) = found["items"]
    assert (item["name"], item["node"], item["reason"]) == ("large", "a", None)
    assert [(step["name"], step["from"], step["to"]) for step in item["steps"]] == [("small", "a", "b")]


async def test_pods_of_lower_priority_are_evicted_if_no_moves_help(api: Api) -> None:
    fill(api)
    api.pods = [bound("low", "a", 8), bound("big", "b", 9, priority=5), waiting("large", 12, priority=9)]
    assert await rows(api) == [
        ["1", "default", "low", "0", "a", "-", "default/large", "priority", "below", "9"]
    ]


@pytest.mark.parametrize("owner", ["", "Job", "DaemonSet"])
async def test_a_pod_that_nobody_brings_back_is_not_moved(api: Api, owner: str) -> None:
    fill(api)
    api.pods[0] = bound("small", "a", 6, owner=owner)
    api.pods[1]["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
    assert "no pods can be moved for it" in await why(api)


@pytest.mark.parametrize("annotation", [ANN_SAFE_TO_EVICT, "cluster-autoscaler.kubernetes.io/safe-to-evict"])
async def test_an_annotation_keeps_a_pod_where_it_is(api: Api, annotation: str) -> None:
    fill(api)
    for each in api.pods[:2]:
        each["metadata"]["annotations"][annotation] = "false"
    assert "no pods can be moved" in await why(api)


async def test_a_pod_moves_only_where_the_scheduler_would_take_it(api: Api) -> None:
    for selector, cpu in (({"disk": "ssd"}, "1"), ({}, "100")):
        fill(api)
        api.pods.pop(1)
        api.pods.insert(1, bound("big", "b", 8, owner=""))
        api.pods[0]["spec"]["nodeSelector"] = selector
        api.pods[0]["spec"]["containers"][0]["resources"]["requests"] = {"cpu": cpu}
        assert "no pods can be moved" in await why(api), (selector, cpu)


async def test_two_moved_pods_do_not_get_the_same_cpu(api: Api) -> None:
    """Each needs 5 of the 8 CPUs of b."""
    api.nodes = two_nodes()
    api.pods = [bound(f"s{i}", "a", 6) for i in range(2)]
    for each in api.pods:
        each["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "5"}
    api.nodes[0]["status"]["allocatable"]["cpu"] = "16"
    api.pods.append(waiting("large", 14, nodeSelector={"kubernetes.io/hostname": "a"}))
    api.nodes[0]["metadata"]["labels"] = {"kubernetes.io/hostname": "a"}
    assert "no pods can be moved" in await why(api)
    for each in api.pods[:2]:
        each["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "4"}
    assert len(await rows(api)) == 2


async def test_a_disruption_budget_protects_a_pod(api: Api) -> None:
    fill(api)
    api.pods[1] = bound("big", "b", 8, owner="")
    selector = {"matchLabels": {"app": "small"}}
    api.budgets = [
        {
            "metadata": {"name": "guard", "namespace": "default"},
            "spec": {"selector": selector},
            "status": {"disruptionsAllowed": 0},
        }
    ]
    assert "no pods can be moved" in await why(api)


async def test_each_plan_begins_where_the_last_one_ends(api: Api) -> None:
    """The second pod cannot get the room of the first one."""
    fill(api, waiting("second", 12))
    code, out, err = await call(api, "defrag")
    assert (code, len(out.splitlines())) == (0, 2)
    assert "pod default/second: no pods can be moved" in err


async def test_pods_that_no_eviction_helps(api: Api) -> None:
    fill(api)
    api.pods[2] = waiting("large", 12, nodeSelector={"disk": "ssd"})
    assert "other conditions than GPUs keep it off every node" in await why(api)
    api.pods[2] = waiting("large", 2)
    assert "it fits on node a now" in await why(api)
    api.pods[2] = waiting("large", 12, schedulingGroup={"podGroupName": "g"})
    assert "pods of a pod group" in await why(api)
    api.pods.pop()
    assert await why(api) == "No pod waits for a GPU.\n"


async def test_apply_nominates_evicts_and_waits(api: Api) -> None:
    fill(api)

    def carried_out(_: str) -> int:
        assert api.nominated == [("large", "a")]
        back = bound("small", "b", 6)
        back["metadata"] |= {"name": "small-2", "uid": "uid-small-2"}
        api.pods[0] = back
        api.pods[2]["spec"]["nodeName"] = "a"
        return HTTPStatus.CREATED

    api.on_eviction = carried_out
    code, out, _ = await call(api, "defrag", "--apply", "--yes")
    assert (code, api.evicted) == (0, ["small"])
    assert out.splitlines()[-3:] == [
        "evicted default/small",
        "default/small-2 is on node b",
        "default/large is on node a",
    ]
    assert api.nominated == [("large", "a")]


async def test_a_refused_eviction_ends_it(api: Api) -> None:
    """The room is no longer reserved, and nothing more is evicted."""
    fill(api)
    api.on_eviction = lambda _: HTTPStatus.TOO_MANY_REQUESTS
    code, _, err = await call(api, "defrag", "--apply", "--yes")
    assert code == 1
    assert "a disruption budget protects pod default/small now" in err
    assert api.nominated == [("large", "a"), ("large", None)]


async def test_a_replacement_without_a_node_ends_it(api: Api) -> None:
    fill(api)
    api.on_eviction = lambda _: api.pods.pop(0) and HTTPStatus.CREATED
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    async with await ApiSource(api.kubeconfig).client() as client:
        run = Run(client, deadline_s=300, show=lambda _: None, sleep=sleep)
        with pytest.raises(Surprise, match="the replacement of pod default/small has no node after 300 s"):
            await run.carry_out(planned(await collect(client, [])))
    assert sum(waited) == 300
    assert api.nominated[-1] == ("large", None)


async def test_nothing_is_done_without_a_yes(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(api)
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    code, _, _ = await call(api, "defrag", "--apply")
    assert code == 1
    assert not api.evicted
    assert not api.nominated


@pytest.mark.parametrize("flags", [["--apply", "--plan"], ["--yes"], ["--apply", "-o", "json"]])
async def test_flags_that_exclude_each_other(api: Api, flags: list[str]) -> None:
    assert "--apply excludes --plan" in await refused(api, "defrag", *flags, code=2)


async def test_a_missing_right_is_named(api: Api) -> None:
    fill(api)
    api.forbidden = {"/apis/policy/v1/poddisruptionbudgets"}
    assert "poddisruptionbudgets is forbidden" in await refused(api, "defrag")
