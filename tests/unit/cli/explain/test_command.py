"""``kubectl gpushare explain`` against a fake of the API server."""

import pytest

from gpushare.contract import EXTENDER_NAME
from tests.support.builders.api_objects import node, pod, share
from tests.unit.cli.fakes import Api, call, documented, shown

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


async def test_several_pods_of_one_name(api: Api) -> None:
    api.pods = [pod("a", None, 1), pod("a", None, 1, namespace="other")]
    code, _, err = await call(api, "explain", "a", "-A")
    assert (code, err) == (
        1,
        "Error: there are pods a in the namespaces default, other; choose one with -n\n",
    )


async def test_without_the_right_to_list_nodes(api: Api) -> None:
    fill(api)
    api.forbidden = {"/api/v1/nodes"}
    code, out, _ = await call(api, "explain", "big")
    assert code == 0
    assert "note: this account may not list nodes" in out


async def test_without_the_right_to_read_the_pod(api: Api) -> None:
    api.forbidden = {"/api/v1/namespaces/default/pods"}
    code, _, err = await call(api, "explain", "big")
    assert code == 1
    assert "cannot list resource" in err


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
