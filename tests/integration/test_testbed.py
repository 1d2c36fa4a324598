"""The testbed: a real control plane, simulated nodes, and nothing left behind."""

import asyncio
import json
import signal
import socket
import sys
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

import testbed
from devkit import pids
from devkit.folders import bed_folder, cache_root, data_folder
from devkit.ports import free_ports
from devkit.process import run_text
from devkit.waiting import timeout_factor
from gpushare import contract
from gpushare.errors import ApiError, ConfigError
from testbed import Bed, DevkitError, SchedulerSpec, SimGpu, SimNode, Testbed, gpu_pod, until
from testbed.control_plane import audit
from testbed.control_plane.stages import SLOW_DELETE, SLOW_START

pytestmark = pytest.mark.asyncio(loop_scope="module")

NODE = "cn-zhangjiakou.192.168.3.184"
PODS = "/api/v1/namespaces/default/pods"
POLICY = json.dumps({"kind": "Policy", "apiVersion": "v1", "extenders": []})
ROOT = Path(testbed.__file__).parents[1]
OWNER = """
import asyncio, sys
from testbed import Testbed

async def main():
    async with Testbed(name=sys.argv[1], kwok=False):
        print("open", flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


def node(name: str = NODE, **fields: Any) -> SimNode:
    return SimNode(name, [SimGpu(), SimGpu()], address="192.168.3.184", **fields)


async def until_phase(bed: Bed, name: str, phase: str) -> dict[str, Any]:
    async def reached() -> dict[str, Any] | None:
        pod = await bed.api.get(f"{PODS}/{name}")
        return pod if pod["status"].get("phase") == phase else None

    pod = await until(reached, f"pod {name} to be {phase}")
    assert pod is not None
    return pod


async def until_gone(bed: Bed, path: str) -> None:
    async def gone() -> bool:
        try:
            await bed.api.get(path)
        except ApiError as error:
            return error.status == 404
        return False

    await until(gone, f"{path} to be gone")


async def ensure_node(bed: Bed) -> None:
    try:
        await bed.api.get(f"/api/v1/nodes/{NODE}")
    except ApiError:
        await bed.add_nodes([node()])


async def test_a_simulated_node_is_ready_and_offers_its_gpus(shared_bed: Bed) -> None:
    await ensure_node(shared_bed)
    stored = await shared_bed.api.get(f"/api/v1/nodes/{NODE}")
    assert stored["status"]["allocatable"][contract.RESOURCE_MEM] == "28"
    assert stored["status"]["capacity"][contract.RESOURCE_COUNT] == "2"
    assert len(json.loads(stored["metadata"]["annotations"][contract.ANN_CARDS])) == 2
    assert {"type": "InternalIP", "address": "192.168.3.184"} in stored["status"]["addresses"]


async def test_a_node_that_lost_readiness_gets_it_back_and_keeps_its_resources(shared_bed: Bed) -> None:
    bed = shared_bed
    await bed.add_nodes([node("unwell")])
    before = await bed.api.get("/api/v1/nodes/unwell")
    lost = [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]
    await bed.api.patch("/api/v1/nodes/unwell/status", {"status": {"conditions": lost}})

    async def ready() -> dict[str, Any] | None:
        seen = await bed.api.get("/api/v1/nodes/unwell")
        states = {each["type"]: each["status"] for each in seen["status"]["conditions"]}
        return seen if states["Ready"] == "True" else None

    after = await until(ready, "the node to be Ready again")
    assert after is not None
    for part in ("capacity", "allocatable", "addresses"):
        assert after["status"][part] == before["status"][part]
    await bed.delete_node("unwell")


async def test_pods_run_on_a_node_that_is_added_again(shared_bed: Bed) -> None:
    """A pod with a node name is created at once, when kwok may still have the Lease of the previous node."""
    for number in range(5):
        name = f"early-{number}"
        await shared_bed.add_nodes([node("again")])
        pod = gpu_pod(name, 1)
        pod["spec"]["nodeName"] = "again"
        await shared_bed.create_pods([pod])
        await until_phase(shared_bed, name, "Running")
        await shared_bed.api.delete(f"{PODS}/{name}", gracePeriodSeconds="0")
        await until_gone(shared_bed, f"{PODS}/{name}")
        await shared_bed.delete_node("again")


async def test_a_pod_that_asks_for_gpu_memory_is_scheduled_and_runs(shared_bed: Bed) -> None:
    await ensure_node(shared_bed)
    await shared_bed.create_pods([gpu_pod("asks", 4)])
    pod = await until_phase(shared_bed, "asks", "Running")
    assert pod["spec"]["nodeName"] == NODE
    await shared_bed.api.delete(f"{PODS}/asks")
    await until_gone(shared_bed, f"{PODS}/asks")


async def test_a_pod_that_fits_no_node_is_unschedulable(shared_bed: Bed) -> None:
    await ensure_node(shared_bed)
    await shared_bed.create_pods([gpu_pod("too-big", 29)])

    async def refused() -> bool:
        pod = await shared_bed.api.get(f"{PODS}/too-big")
        return any(each.get("reason") == "Unschedulable" for each in pod["status"].get("conditions", ()))

    await until(refused, "the scheduler to refuse the pod")
    await shared_bed.api.delete(f"{PODS}/too-big")


async def test_a_slowed_pod_starts_and_ends_when_its_annotations_are_removed(shared_bed: Bed) -> None:
    bed, path = shared_bed, f"{PODS}/slow"
    await ensure_node(bed)
    await bed.create_pods([gpu_pod("slow", 1, annotations={SLOW_START: "true", SLOW_DELETE: "true"})])
    # A later pod without these annotations has gone through both stages.
    await bed.create_pods([gpu_pod("quick", 1)])
    await until_phase(bed, "quick", "Running")
    assert (await bed.api.get(path))["status"]["phase"] == "Pending"
    await bed.api.patch(path, {"metadata": {"annotations": {SLOW_START: None}}})
    await until_phase(bed, "slow", "Running")
    await bed.api.delete(path)
    await bed.api.delete(f"{PODS}/quick")
    await until_gone(bed, f"{PODS}/quick")
    assert "deletionTimestamp" in (await bed.api.get(path))["metadata"]
    await bed.api.patch(path, {"metadata": {"annotations": {SLOW_DELETE: None}}})
    await until_gone(bed, path)


async def test_a_service_account_has_only_granted_permissions(shared_bed: Bed) -> None:
    bed, user = shared_bed, f"system:serviceaccount:kube-system:{contract.EXTENDER_NAME}"
    async with bed.api_for(user) as api:
        with pytest.raises(ApiError) as refused:
            await api.get("/api/v1/nodes")
        assert refused.value.status == 403
        await bed.kubectl(
            "create", "clusterrolebinding", "reads", "--clusterrole=system:node", f"--user={user}"
        )
        await until(lambda: api.get("/api/v1/nodes"), "the granted right")
    await bed.kubectl("delete", "clusterrolebinding", "reads")


async def test_a_group_has_the_permissions_granted_to_it(shared_bed: Bed) -> None:
    kubeconfig = shared_bed.kubeconfig_for("jane", ["system:masters"])
    answer = await shared_bed.kubectl(f"--kubeconfig={kubeconfig}", "auth", "can-i", "*", "*")
    assert answer.strip() == "yes"


async def test_kubectl_applies_manifests_and_reports_errors(shared_bed: Bed) -> None:
    await shared_bed.apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: applied}\ndata: {key: value}\n")
    stored = await shared_bed.api.get("/api/v1/namespaces/default/configmaps/applied")
    assert stored["data"] == {"key": "value"}
    with pytest.raises(DevkitError, match="not found"):
        await shared_bed.kubectl("get", "configmap", "missing")


async def test_pods_can_be_created_in_a_new_namespace_at_once(shared_bed: Bed) -> None:
    await shared_bed.create_namespace("team-a")
    await shared_bed.create_pods([gpu_pod("first", 1, namespace="team-a")])
    await shared_bed.api.delete("/api/v1/namespaces/team-a")


async def test_a_stopped_api_server_comes_back_with_its_objects(shared_bed: Bed) -> None:
    await ensure_node(shared_bed)
    await shared_bed.stop("kube-apiserver")
    with pytest.raises(ApiError) as silent:
        await shared_bed.api.get("/api/v1/nodes")
    assert silent.value.status == 0
    await shared_bed.start("kube-apiserver")
    assert (await shared_bed.api.get(f"/api/v1/nodes/{NODE}"))["metadata"]["name"] == NODE


async def test_a_killed_etcd_comes_back_with_its_objects(shared_bed: Bed) -> None:
    await ensure_node(shared_bed)
    await shared_bed.kill("etcd")
    await shared_bed.start("etcd")
    stored = await until(lambda: shared_bed.api.get(f"/api/v1/nodes/{NODE}"), "the node")
    assert stored["metadata"]["name"] == NODE


async def test_a_paused_api_server_does_not_respond_until_it_is_resumed(shared_bed: Bed) -> None:
    await shared_bed.pause("kube-apiserver")
    with pytest.raises(ApiError) as silent:
        await shared_bed.api.request("GET", "/readyz", timeout_s=0.5)
    assert silent.value.status == 0
    await shared_bed.resume("kube-apiserver")
    await until(lambda: shared_bed.api.get("/api/v1/nodes"), "an answer")


async def test_a_replaced_scheduler_reads_its_new_configuration(shared_bed: Bed) -> None:
    await ensure_node(shared_bed)
    profile = {"profiles": [{"schedulerName": "other"}], "leaderElection": {"leaderElect": False}}
    header = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    await shared_bed.restart_scheduler(SchedulerSpec(config=json.dumps({**header, **profile})))
    await shared_bed.create_pods([gpu_pod("named", 1, schedulerName="other")])
    await until_phase(shared_bed, "named", "Running")
    assert "scheduler_schedule_attempts_total" in await shared_bed.scheduler_metrics()
    await shared_bed.api.delete(f"{PODS}/named")
    await shared_bed.restart_scheduler(SchedulerSpec())


async def test_every_write_of_a_pod_is_in_the_history_with_request_and_answer(shared_bed: Bed) -> None:
    await ensure_node(shared_bed)
    await shared_bed.create_pods([gpu_pod("told", 1)])
    await until_phase(shared_bed, "told", "Running")
    written = {("create", ""), ("create", "binding"), ("patch", "status")}

    async def complete() -> dict[tuple[str, str], Any] | None:
        # The API server logs a request after its answer.
        events = [
            each for each in audit.read(shared_bed.audit_log) if each["objectRef"].get("name") == "told"
        ]
        found = {(each["verb"], each["objectRef"].get("subresource", "")): each for each in events}
        return found if found.keys() >= written else None

    reported = await until(complete, "the audit log to have the writes of the pod")
    assert reported["create", ""]["responseObject"]["metadata"]["resourceVersion"]
    assert reported["create", "binding"]["requestObject"]["target"]["name"] == NODE
    assert reported["patch", "status"]["responseObject"]["status"]
    await shared_bed.api.delete(f"{PODS}/told")


async def test_a_spawned_program_logs_restarts_and_is_known_by_name(shared_bed: Bed) -> None:
    marker = shared_bed.folder / "marker"

    async def ready() -> bool:
        return marker.exists()

    script = f'echo "for $WHO"; touch {marker}; exec sleep 600'
    process = await shared_bed.spawn("helper", ["/bin/sh", "-c", script], env={"WHO": "me"}, ready=ready)
    first = process.pid
    with pytest.raises(ConfigError, match="already has a process 'helper'"):
        await shared_bed.spawn("helper", ["/bin/true"])
    marker.unlink()
    await process.restart()
    assert process.pid != first
    assert process.command.log.read_text() == "for me\n" * 2
    await shared_bed.kill("helper")
    assert await process.wait() == -signal.SIGKILL


async def test_the_error_for_a_program_that_ends_early_has_its_last_output(
    shared_bed: Bed,
) -> None:
    with pytest.raises(DevkitError, match=r"(?s)ended with 3.*last words"):
        await shared_bed.spawn(
            "short", ["/bin/sh", "-c", "echo last words; exit 3"], ready="http://127.0.0.1:9/"
        )


async def test_children_of_a_spawned_program_end_with_it(shared_bed: Bed) -> None:
    note = shared_bed.folder / "child"
    script = f"sleep 600 & echo $! > {note}; wait"

    async def ready() -> bool:
        return note.exists() and note.read_text().endswith("\n")

    process = await shared_bed.spawn("parent", ["/bin/sh", "-c", script], ready=ready)
    child = int(note.read_text())
    await process.stop()
    await until(lambda: _dead(child), "the child to be dead")


async def test_servers_listen_on_loopback_only(shared_bed: Bed) -> None:
    addresses = {
        address
        for process in shared_bed.processes.values()
        if process.running
        for address in listening(process.pid)
    }
    assert addresses == {"127.0.0.1"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def other_bed() -> AsyncIterator[Bed]:
    """A second bed, with scheduler 1.22; another program has one of the ports that it tries first."""
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.MonkeyPatch.context() as patch:
        choices = iter([[*free_ports(5), taken.getsockname()[1]], free_ports(6)])
        patch.setattr("testbed.control_plane.start.free_ports", lambda _: next(choices))
        bed = await Testbed(scheduler=SchedulerSpec(version="1.22", config=POLICY)).open()
    yield bed
    await bed.close()


async def test_two_beds_run_side_by_side(shared_bed: Bed, other_bed: Bed) -> None:
    for bed, name in ((shared_bed, "only-here"), (other_bed, "only-there")):
        await bed.add_nodes([node(name)])
    here, there = [
        {each["metadata"]["name"] for each in await bed.api.items("/api/v1/nodes")}
        for bed in (shared_bed, other_bed)
    ]
    assert (here & {"only-here", "only-there"}, there) == ({"only-here"}, {"only-there"})
    for bed, name in ((shared_bed, "only-here"), (other_bed, "only-there")):
        await bed.delete_node(name)


async def test_a_bed_starts_on_other_ports_if_one_is_in_use(other_bed: Bed) -> None:
    assert other_bed.process("kwok").running


async def test_a_bed_in_use_cannot_be_started_twice(shared_bed: Bed) -> None:
    with pytest.raises(DevkitError, match=f"testbed '{shared_bed.name}' is in use"):
        await Testbed(shared_bed.name).open()


async def test_scheduler_1_22_with_a_policy_schedules_a_pod(other_bed: Bed) -> None:
    await other_bed.add_nodes([node(annotate_cards=False)])
    await other_bed.create_pods([gpu_pod("old-style", 4)])
    await until_phase(other_bed, "old-style", "Running")
    assert other_bed.layout.scheduler_config.read_text() == POLICY


async def test_the_next_start_removes_what_a_killed_owner_left(bed_name: str) -> None:
    folder = bed_folder(bed_name, cache_root())
    owner = await asyncio.create_subprocess_exec(
        sys.executable, "-c", OWNER, bed_name, cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert owner.stdout is not None
        assert await asyncio.wait_for(owner.stdout.readline(), 60 * timeout_factor()) == b"open\n"
        processes = [entry.pid for entries in pids.running(folder).values() for entry in entries]
        assert len(processes) == 4
    finally:
        owner.kill()
        await owner.communicate()
    for pid in processes:
        await until(partial(_dead, pid), f"process {pid} to end with its owner")
    assert data_folder(folder).exists()
    bed = await Testbed(bed_name, scheduler=SchedulerSpec(version=None), kwok=False).open()
    assert await bed.api.items("/api/v1/nodes") == []
    await bed.close()
    assert not data_folder(folder).exists()
    assert pids.running(folder) == {}


async def test_a_bed_that_was_left_up_runs_until_it_is_taken_down(bed_name: str) -> None:
    async def command(*arguments: str) -> str:
        return await run_text([sys.executable, "-m", "testbed", *arguments], 60, cwd=ROOT)

    kubeconfig = (await command("up", f"--name={bed_name}", "--scheduler=none", "--nodes=1")).strip()
    try:
        with pytest.raises(DevkitError, match=f"testbed '{bed_name}' is up"):
            await Testbed(bed_name).open()
        kubectl = (await command("bin", "kubectl")).strip()
        names = [kubectl, f"--kubeconfig={kubeconfig}", "get", "nodes", "-o", "name"]
        assert await run_text(names, 60) == "node/sim-0\n"
        assert (
            f"{bed_name}: etcd, kube-apiserver, kube-controller-manager, kwok (KUBECONFIG="
            in await command("status")
        )
    finally:
        ended = await command("down", f"--name={bed_name}")
    assert ended == "stopped: etcd, kube-apiserver, kube-controller-manager, kwok\n"
    assert pids.running(Path(kubeconfig).parent) == {}


def listening(pid: int) -> set[str]:
    """Return the local addresses that a process listens on."""
    links = [_link(each) for each in Path(f"/proc/{pid}/fd").iterdir()]
    sockets = {
        link.removeprefix("socket:[").removesuffix("]") for link in links if link.startswith("socket:[")
    }
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in sockets:
                found.add(_address(fields[1].partition(":")[0]))
    return found


def _address(text: str) -> str:
    if len(text) > 8:
        return text
    return ".".join(str(octet) for octet in reversed(bytes.fromhex(text)))


def _link(path: Path) -> str:
    try:
        return str(path.readlink())
    except OSError:
        return ""


async def _dead(pid: int) -> bool:
    try:
        return pids.state_of(pid) in "ZX"
    except FileNotFoundError:
        return True
