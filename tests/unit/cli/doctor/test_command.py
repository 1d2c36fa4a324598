"""``kubectl gpushare doctor`` against a fake of the API server."""

import json

import pytest
from aiohttp import web

from gpushare.contract import AGENT_NAME, EXTENDER_NAME, RESOURCE_MEM
from tests.support.builders.diagnosis import gpu_node
from tests.unit.cli.doctor.fakes import SYSTEM, Cluster, ours

pytestmark = pytest.mark.asyncio


def status_of(out: str) -> dict[str, str]:
    return {each["name"]: each["status"] for each in json.loads(out)["checks"]}


async def test_a_cluster_with_faults(cluster: Cluster) -> None:
    code, out, err = await cluster.doctor("-o", "json")
    found = status_of(out)
    assert (code, err) == (1, "")
    assert found["extender-lease"] == "failed"
    assert found["extender-leader"] == "ok"
    assert found["cgroups"] == "ok"
    assert found["rights-extender"] == "ok"
    assert found["agents"] == "unknown"
    assert found["agent-registered"] == "ok"


async def test_the_text_names_the_next_command_and_the_missing_right(cluster: Cluster) -> None:
    _, out, _ = await cluster.doctor("--node", "gpu-1")
    assert "→ kubectl get pods -n kube-system -l component=gpushare-schd-extender -o wide" in out
    assert "\n  get pods/proxy in kube-system: " in out
    assert out.splitlines()[-1].endswith("unknown")


async def test_nothing_is_written(cluster: Cluster) -> None:
    await cluster.doctor()
    written = {path for method, path in cluster.methods if method != "GET"}
    assert written == {"/apis/authorization.k8s.io/v1/subjectaccessreviews"}


async def test_without_any_right_all_is_unknown_and_that_is_a_failure(cluster: Cluster) -> None:
    cluster.answers = {"/version": {"gitVersion": "v1.36.3"}}
    code, out, err = await cluster.doctor("-o", "json")
    assert (code, err) == (1, "")
    assert {name for name, status in status_of(out).items() if status == "ok"} == {"api-server"}
    assert {each["missingRight"] for each in json.loads(out)["checks"][1:]} >= {"list nodes", "list pods"}


async def test_missing_rights_have_one_line_each(cluster: Cluster) -> None:
    cluster.answers = {"/version": {"gitVersion": "v1.36.3"}}
    _, out, _ = await cluster.doctor()
    lines = out.splitlines()
    start = lines.index("Not checked, because this account lacks rights:")
    assert sum(line.startswith("  list nodes: ") for line in lines[start:]) == 1
    assert len(lines) < 20
    assert "monitoring.viewers" in out


async def test_unreadable_objects_are_no_traceback(cluster: Cluster) -> None:
    answers = cluster.answers
    for path in answers:
        answers[path] = {"items": [{"metadata": 7}], "spec": 7, "status": 7, "gitVersion": 7}
    code, out, err = await cluster.doctor("-o", "json")
    assert (code, err) == (1, "")
    assert set(status_of(out).values()) == {"unknown"}


@pytest.mark.parametrize("number", ["NaN", "+Inf"])
async def test_numbers_that_are_not_finite_are_no_traceback(cluster: Cluster, number: str) -> None:
    cluster.answers["/api/v1/nodes/gpu-1/proxy/metrics"] = f"kubelet_cgroup_version {number}\n"
    requests = f'gpushare_extender_requests_total{{verb="filter"}} {number}\n'
    cluster.answers[f"{SYSTEM}/pods/{EXTENDER_NAME}:12346/proxy/metrics"] = requests
    _, out, err = await cluster.doctor("-o", "json")
    assert err == ""
    assert status_of(out)["cgroups"] == "unknown"


async def test_a_node_at_a_loopback_address_is_named_with_cause_and_next_command(cluster: Cluster) -> None:
    async def refused(_: web.Request) -> web.Response:
        body = {"kind": "Status", "message": "address not allowed", "reason": "BadRequest", "code": 400}
        return web.json_response(body, status=400)

    cluster.more["/api/v1/nodes/gpu-1/proxy/metrics"] = refused
    _, out, _ = await cluster.doctor("-o", "json")
    [found] = [each for each in json.loads(out)["checks"] if each["name"] == "cgroups"]
    assert found["status"] == "unknown"
    assert "has a loopback or link-local address" in found["cause"]
    assert "start its kubelet with --node-ip" in found["cause"]
    assert found["command"] == "on node gpu-1: stat -fc %T /sys/fs/cgroup"


async def test_an_unknown_node(cluster: Cluster) -> None:
    assert await cluster.doctor("--node", "x") == (1, "", "Error: there is no node x\n")


async def test_an_api_server_that_does_not_answer(cluster: Cluster) -> None:
    cluster.answers = {}
    code, out, err = await cluster.doctor()
    assert (code, out) == (1, "")
    assert err.startswith("Error: ")


async def test_a_node_without_units(cluster: Cluster) -> None:
    cluster.answers["/api/v1/nodes"] = {"items": [gpu_node(amounts={RESOURCE_MEM: "x"})]}
    _, out, _ = await cluster.doctor("-o", "json")
    assert status_of(out)["agent-registered"] == "failed"


async def test_of_many_nodes_some_are_asked_for_metrics(cluster: Cluster) -> None:
    names = [f"n-{number:03}" for number in range(120)]
    agents = [ours(AGENT_NAME) for _ in names]
    for name, agent in zip(names, agents, strict=True):
        agent["metadata"]["name"] = f"agent-{name}"
        agent["spec"]["nodeName"] = name
    cluster.answers["/api/v1/nodes"] = {"items": [gpu_node(name) for name in names]}
    cluster.answers[f"{SYSTEM}/pods"] = {"items": [ours(EXTENDER_NAME), *agents]}
    await cluster.doctor()
    pages = [path for _, path in cluster.methods if path.endswith("/proxy/metrics")]
    assert len([path for path in pages if "agent-" in path]) == 100
    assert len([path for path in pages if "/nodes/" in path]) == 20
    await cluster.doctor("--node", names[-1])
    assert (f"{SYSTEM}/pods/agent-{names[-1]}:12347/proxy/metrics") in {path for _, path in cluster.methods}


DAEMON_SETS = "/apis/apps/v1/namespaces/kube-system/daemonsets"


async def test_faults_of_few_nodes_are_no_failure_of_the_fleet(cluster: Cluster) -> None:
    cluster.answers[f"/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/{EXTENDER_NAME}"] = {
        "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": "2999-01-01T00:00:00Z"}
    }
    cluster.answers["/api/v1/nodes"] = {"items": [gpu_node(), gpu_node("gpu-2", ready=False)]}
    cluster.answers[DAEMON_SETS] = {"items": []}
    code, out, _ = await cluster.doctor("-o", "json")
    assert code == 1
    assert status_of(out)["sharing-nodes"] == "failed"
    code, out, _ = await cluster.doctor("--max-unready", "50%", "-o", "json")
    found = status_of(out)
    assert (code, found["ready-nodes"], found["sharing-nodes"]) == (0, "ok", "failed")
    code, out, _ = await cluster.doctor("--max-unready", "0", "-o", "json")
    assert (code, status_of(out)["ready-nodes"]) == (1, "failed")


async def test_nodes_that_become_ready_are_waited_for(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpushare.cli.doctor.gate._POLL_S", 0.001)
    cluster.answers[DAEMON_SETS] = {"items": []}
    asked = 0

    async def nodes(_: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        return web.json_response({"items": [gpu_node(ready=asked > 3)]})

    cluster.more["/api/v1/nodes"] = nodes
    _, out, _ = await cluster.doctor("--max-unready", "0", "--wait", "1m", "-o", "json")
    assert status_of(out)["ready-nodes"] == "ok"
    assert asked > 3


@pytest.mark.parametrize(("status", "shown"), [(503, "ready"), (403, "forbidden")])
async def test_a_wait_outlives_a_restart_of_the_api_server_but_no_refusal(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, status: int, shown: str
) -> None:
    monkeypatch.setattr("gpushare.cli.doctor.gate._POLL_S", 0.001)
    cluster.answers[DAEMON_SETS] = {"items": []}
    asked = 0

    async def nodes(_: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        failure = {"kind": "Status", "message": "forbidden", "reason": "Forbidden"}
        if asked == 2:
            return web.json_response(failure, status=status)
        return web.json_response({"items": [gpu_node(ready=asked > 2)]})

    cluster.more["/api/v1/nodes"] = nodes
    _, out, err = await cluster.doctor("--max-unready", "0", "--wait", "1m")
    assert shown in (err if status == 403 else out)
    assert (asked > 2) is (status == 503)


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (["--wait", "1m"], "set --max-unready too"),
        (["--max-unready", "1", "--node", "gpu-1"], "leave out --node"),
        (["--max-unready", "101%"], "is not a number or a percentage such as 3 or 10%"),
        (["--max-unready", "-1"], "is not a number or a percentage such as 3 or 10%"),
    ],
)
async def test_flags_of_the_fleet_have_their_form(cluster: Cluster, flags: list[str], problem: str) -> None:
    code, _, err = await cluster.doctor(*flags)
    assert code == 2
    assert problem in err
