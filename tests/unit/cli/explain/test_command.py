"""``kubectl gpushare explain`` against a fake of the API server."""

import pytest

from gpushare.contract import EXTENDER_NAME
from gpushare.overview.usage_api import way_to_usage
from tests.support.builders.api_objects import Json, node, pod, share
from tests.unit.cli.fakes import Api, call, documented, refused, shown

pytestmark = pytest.mark.asyncio


def fill(api: Api) -> None:
    api.nodes = [node("n", share(14))]
    api.pods = [pod("a", "n", 10, index="0"), pod("big", None, 8, phase="Pending")]


async def test_a_pending_pod(api: Api) -> None:
    fill(api)
    out = await shown(api, "explain", "big")
    assert "asked 8, at most 4 of 14 free on GPU 0" in out
    assert "kubectl delete pod -n default a" in out


async def test_an_unreadable_entry_of_the_unhealthy_gpus_is_a_note_and_the_others_count(api: Api) -> None:
    fill(api)
    api.config_maps = [{"metadata": {"name": "unhealthy-gpu-n"}, "data": {"gpus": "0,GPU-1"}}]
    found = await documented(api, "explain", "big", "-o", "json")
    assert found["kind"] == "PodExplanation"
    assert found["nodes"][0]["cards"][0]["verdict"] == "unhealthy"
    assert found["notes"] == [
        "ConfigMap kube-system/unhealthy-gpu-n: 'GPU-1' is not a GPU index; write gpus: 0,2"
    ]


async def test_no_such_pod(api: Api) -> None:
    words = "Error: there is no pod x in namespace {} (-A: all namespaces)\n"
    assert await call(api, "explain", "x") == (1, "", words.format("default"))
    assert (await call(api, "explain", "x", "-n", "a"))[2] == words.format("a")
    assert (await call(api, "explain", "x", "-A"))[2] == "Error: there is no pod x in any namespace\n"


@pytest.mark.parametrize("name", ["web", "web-5d8f", "web-5d8f-x2x4z"])
async def test_a_pod_that_a_quota_refuses_does_not_exist(api: Api, name: str) -> None:
    involved = {"kind": "ReplicaSet", "name": "web-5d8f"}
    api.events = [{"involvedObject": involved, "message": "exceeded quota: gpus"}]
    _, _, err = await call(api, "explain", name)
    assert err == (
        f"Error: there is no pod {name} in namespace default (-A: all namespaces); "
        "ReplicaSet web-5d8f cannot create pods: exceeded quota: gpus\n"
    )


async def test_several_pods_of_one_name(api: Api) -> None:
    api.pods = [pod("a", None, 1), pod("a", None, 1, namespace="other")]
    code, _, err = await call(api, "explain", "a", "-A")
    assert (code, err) == (
        1,
        "Error: there are pods a in the namespaces default, other; choose one with -n\n",
    )


def said(reason: str, message: str, at: str, of: str = "uid-big") -> Json:
    """An event about a pod."""
    return {
        "involvedObject": {"uid": of},
        "reason": reason,
        "message": message,
        "lastTimestamp": f"2026-11-29T{at}:00Z",
    }


async def test_without_the_right_to_list_nodes_the_event_of_the_extender_is_the_answer(api: Api) -> None:
    fill(api)
    api.allow_only("default")
    uid = api.pods[1]["metadata"]["uid"]
    api.events = [
        said("GPUShareRefused", "asked 8, the largest GPU has 7", "09:00", uid),
        said("GPUShareRefused", "asked 8, at most 4 of 14 free on GPU 0", "10:00", uid),
        said("FailedScheduling", "0/1 nodes are available", "11:00", uid),
        said("GPUShareRefused", "of another pod", "12:00", "other"),
    ]
    out = await shown(api, "explain", "big")
    assert out.splitlines() == [
        (
            "Pod default/big: it requests 8 units of aliyun.com/gpu-mem on one GPU, "
            "and you may not list the nodes that could have them."
        ),
        "",
        "The extender's last message:",
        "  asked 8, at most 4 of 14 free on GPU 0",
        "note: you may not list nodes and pods of all namespaces",
        f"note: {way_to_usage('default')}",
    ]


async def test_a_suffix_is_explained_without_the_right_to_list_nodes(api: Api) -> None:
    api.pods = [pod("big", None, "4Gi", phase="Pending")]
    api.allow_only("default")
    out = await shown(api, "explain", "big")
    assert "write 4, not 4Gi" in out
    assert "note:" not in out


async def test_with_the_rights_of_one_namespace_the_usage_api_answers(api: Api) -> None:
    fill(api)
    api.allow_only("default")
    card = {"index": 0, "model": "T4", "free": 4, "total": 14, "fits": False, "verdict": "asked 8"}
    explanation = {
        "apiVersion": "usage.gpushare.io/v1",
        "kind": "GpuPodExplanation",
        "metadata": {"name": "big", "namespace": "default"},
        "pod": "default/big",
        "state": "waits-for-gpu",
        "summary": "it requests 8 units on one GPU, and no node has them",
        "nodes": [{"name": "n", "fits": False, "reason": "full", "obstacles": [], "cards": [card]}],
        "remedies": [{"kind": "shrink", "text": "request at most 4 units"}],
    }
    api.usage = {"default/gpupods/big/explanation": explanation}
    out = await shown(api, "explain", "big")
    assert "GPU 0 T4: 4 of 14 free: asked 8" in out
    assert "request at most 4 units" in out
    assert "note:" not in out
    assert (await documented(api, "explain", "big", "-o", "json"))["state"] == "waits-for-gpu"


async def test_without_the_right_to_read_the_pod(api: Api) -> None:
    api.forbidden = {"/api/v1/namespaces/default/pods"}
    assert await refused(api, "explain", "big") == (
        'Error: pods is forbidden: User "ann" cannot list resource "pods" in API group "" in the namespace '
        '"default".\n'
        "An administrator of namespace default can grant the right: kubectl create rolebinding gpushare-view "
        "-n default --clusterrole=view --user=ann\n"
    )


@pytest.mark.parametrize(("flag", "words"), [("1", "with 1 of 1 pods"), ("0", "fits on GPU 0")])
async def test_the_limit_of_pods_is_that_of_the_extender(api: Api, flag: str, words: str) -> None:
    api.nodes = [node("n", share(14), labels={"cgpu": "true"})]
    api.pods = [pod("a", "n", 1, index="0"), pod("b", None, 1, phase="Pending")]
    command = ["gpushare", "extender", f"--cgpu-pods-per-card={flag}"]
    labels = {"component": EXTENDER_NAME}
    api.system_pods = [{"metadata": {"labels": labels}, "spec": {"containers": [{"command": command}]}}]
    _, out, _ = await call(api, "explain", "b")
    assert words in out


async def test_an_unreadable_pod_is_no_traceback(api: Api) -> None:
    fill(api)
    api.pods[1]["spec"]["schedulerName"] = 7
    code, _, err = await call(api, "explain", "big")
    assert code == 1
    assert "cannot be read" in err
