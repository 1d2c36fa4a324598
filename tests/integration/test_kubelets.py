"""Nodes with a real kubelet: real containers, several nodes at once, and nothing left behind."""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

import testbed
from devkit.folders import bed_folder, cache_root, data_folder
from devkit.waiting import timeout_factor
from gpushare.errors import ApiError, ConfigError
from testbed import Bed, DevkitError, SimNode, Testbed, cgroups, until
from testbed.control_plane.components import url_ready
from testbed.control_plane.home import clean
from testbed.kubelets import BUSYBOX_IMAGE, KubeletNode, KubeletSpec, add_kubelet
from testbed.kubelets.files import BUNDLES
from testbed.kubelets.spec import KubeletLayout

pytestmark = [pytest.mark.needs("kubelet"), pytest.mark.asyncio(loop_scope="module")]

PODS = "/api/v1/namespaces/default/pods"
ROOT = Path(testbed.__file__).parents[1]
DEVICE_MOUNTS = "/var/run/nvidia-container-devices"
OWNER = """
import asyncio, sys
from testbed import Testbed
from testbed.kubelets import KubeletSpec, add_kubelet

async def main():
    async with Testbed(name=sys.argv[1], kwok=False) as bed:
        node = await add_kubelet(bed, KubeletSpec("gpu-a"))
        await node.spawn("idle", ["sleep", "1000"])
        print("open", flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""
SERVER = """
import http.server, socketserver, sys

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"here")

socketserver.TCPServer((sys.argv[1], int(sys.argv[2])), Handler).serve_forever()
"""


def cdi_device(name: str, *nodes: tuple[str, str]) -> dict[str, Any]:
    devices = [{"path": path, "hostPath": host} for path, host in nodes]
    return {"name": name, "containerEdits": {"deviceNodes": devices}}


# Two GPUs that do not exist: aliases of devices that every machine has.
CARDS = (("/dev/nvidia0", "/dev/null"), ("/dev/nvidia1", "/dev/zero"))
FAKE_CDI = {
    "cdiVersion": "0.6.0",
    "kind": "nvidia.com/gpu",
    "devices": [
        cdi_device("GPU-aaaa", CARDS[0]),
        cdi_device("GPU-bbbb", CARDS[1]),
        cdi_device("all", *CARDS),
    ],
}
PLAIN = KubeletSpec("gpu-a", labels={"gpushare": "true"}, annotations={"note": "first"})
NVIDIA = KubeletSpec("gpu-b", runtime="nvidia", files={"/etc/cdi/fake.json": json.dumps(FAKE_CDI)})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bed() -> AsyncIterator[Bed]:
    async with Testbed() as bed:
        yield bed


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plain(bed: Bed) -> KubeletNode:
    return await add_kubelet(bed, PLAIN)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def nvidia(bed: Bed) -> KubeletNode:
    return await add_kubelet(bed, NVIDIA)


Run = Callable[..., Awaitable[dict[str, Any]]]


@pytest_asyncio.fixture(loop_scope="module")
async def run(bed: Bed) -> AsyncIterator[Run]:
    """A function that creates a pod on a node and returns it when it runs; it is deleted afterwards."""
    names: list[str] = []

    async def create(
        node: KubeletNode,
        name: str,
        script: str = "exec sleep 1000",
        *,
        mounts: Mapping[str, str] | None = None,
        **container: Any,
    ) -> dict[str, Any]:
        names.append(name)
        places = {f"v{number}": item for number, item in enumerate((mounts or {}).items())}
        await bed.create_pods(
            [
                {
                    "metadata": {"name": name},
                    "spec": {
                        "nodeName": node.name,
                        "terminationGracePeriodSeconds": 0,
                        "volumes": [
                            {"name": key, "hostPath": {"path": host}} for key, (_, host) in places.items()
                        ],
                        "containers": [
                            {
                                "name": "main",
                                "image": "testbed/busybox:1",
                                "command": ["sh", "-c", script],
                                "volumeMounts": [
                                    {"name": key, "mountPath": inside} for key, (inside, _) in places.items()
                                ],
                                **container,
                            }
                        ],
                    },
                }
            ]
        )
        return await until_running(bed, name)

    yield create
    for name in names:
        await bed.api.delete(f"{PODS}/{name}", gracePeriodSeconds="0")


async def until_running(bed: Bed, name: str, restarts: int = 0) -> dict[str, Any]:
    async def running() -> dict[str, Any] | None:
        pod = await bed.api.get(f"{PODS}/{name}")
        main: dict[str, Any] = next(iter(pod["status"].get("containerStatuses", ())), {})
        return pod if "running" in main.get("state", {}) and main["restartCount"] >= restarts else None

    pod = await until(running, f"pod {name} to run")
    assert pod is not None
    return pod


async def until_reached(bed: Bed, name: str) -> None:
    async def reached() -> bool:
        try:
            return await bed.kubectl("exec", name, "--", "cat", "/proc/1/comm") == "sleep\n"
        except DevkitError as error:
            raise ApiError(str(error)) from error

    await until(reached, f"the kubelet to reach the container of {name}")


def container_id(pod: Mapping[str, Any]) -> str:
    return str(pod["status"]["containerStatuses"][0]["containerID"])


def cards_of(spec: Mapping[str, Any]) -> set[str]:
    return {each["path"] for each in spec["linux"].get("devices", ()) if "nvidia" in each["path"]}


async def test_a_node_is_ready_with_the_labels_and_taints_of_its_spec(bed: Bed, plain: KubeletNode) -> None:
    stored = await bed.api.get("/api/v1/nodes/gpu-a")
    assert stored["metadata"]["labels"]["gpushare"] == "true"
    assert stored["metadata"]["annotations"]["note"] == "first"
    assert {"type": "InternalIP", "address": plain.address} in stored["status"]["addresses"]
    assert stored["status"]["nodeInfo"]["kubeletVersion"] == "v1.36.3"


async def test_simulated_nodes_exist_beside_real_ones(bed: Bed, plain: KubeletNode) -> None:
    await bed.add_nodes([SimNode("simulated")])
    lines = (await bed.kubectl("get", "nodes", "--no-headers")).splitlines()
    assert {line.split()[0]: line.split()[1] for line in lines} == {
        plain.name: "Ready",
        "simulated": "Ready",
    }
    await bed.delete_node("simulated")


async def test_kubectl_reads_the_log_of_a_pod_and_runs_commands_in_it(
    bed: Bed, plain: KubeletNode, run: Run
) -> None:
    await run(plain, "talks", "echo hello; exec sleep 1000")
    assert await bed.kubectl("logs", "talks") == "hello\n"
    assert await bed.kubectl("exec", "talks", "--", "cat", "/proc/1/comm") == "sleep\n"


async def test_the_scheduler_sends_a_pod_to_the_node_that_it_selects(bed: Bed, plain: KubeletNode) -> None:
    container = {"name": "main", "image": "testbed/busybox:1", "command": ["true"]}
    spec = {"restartPolicy": "Never", "nodeSelector": {"gpushare": "true"}, "containers": [container]}
    await bed.create_pods([{"metadata": {"name": "short"}, "spec": spec}])

    async def succeeded() -> bool:
        pod = await bed.api.get(f"{PODS}/short")
        ended: bool = pod["status"]["phase"] == "Succeeded"
        return ended and pod["spec"]["nodeName"] == plain.name

    await until(succeeded, "the pod to end well")
    await bed.api.delete(f"{PODS}/short")


async def test_the_kubelet_serves_the_certificate_of_the_bed_and_its_file_systems(
    bed: Bed, plain: KubeletNode
) -> None:
    assert await url_ready(f"https://{plain.address}:10250/healthz", bed.credentials.context())()
    assert not await url_ready(f"https://{plain.address}:10250/healthz", bed.credentials.context("jane"))()

    async def measured() -> bool:
        summary = await bed.api.get("/api/v1/nodes/gpu-a/proxy/stats/summary")
        return bool(summary["node"].get("fs", {}).get("capacityBytes"))

    await until(measured, "the kubelet's first measurement")


async def test_two_nodes_have_separate_directories_addresses_and_names(
    plain: KubeletNode, nvidia: KubeletNode
) -> None:
    await plain.run_text(["touch", "/var/lib/kubelet/mine", "/etc/mine", "/run/mine"])
    for path in ("/var/lib/kubelet/mine", "/etc/mine", "/run/mine"):
        assert plain.path(path).exists()
        assert not nvidia.path(path).exists()
        assert not is_there(path)
    assert plain.address != nvidia.address
    assert await nvidia.run_text(["hostname"]) == "gpu-b\n"


async def test_pods_of_two_nodes_reach_each_other(
    bed: Bed, plain: KubeletNode, nvidia: KubeletNode, run: Run
) -> None:
    await run(plain, "listens", "echo found | nc -l -p 80")
    address = (await bed.api.get(f"{PODS}/listens"))["status"]["podIP"]
    await run(nvidia, "calls")
    assert await bed.kubectl("exec", "calls", "--", "nc", "-w5", address, "80") == "found\n"


async def test_a_kubelet_that_restarts_keeps_its_containers(bed: Bed, plain: KubeletNode, run: Run) -> None:
    before = await run(plain, "stays")
    await plain.kill("kubelet")
    await plain.start("kubelet")
    await until_reached(bed, "stays")
    assert container_id(await until_running(bed, "stays")) == container_id(before)


async def test_a_containerd_that_restarts_keeps_its_containers(
    bed: Bed, plain: KubeletNode, run: Run
) -> None:
    before = await run(plain, "stays-too")
    await plain.kill("containerd")
    await plain.start("containerd")
    await until_reached(bed, "stays-too")
    assert container_id(await until_running(bed, "stays-too")) == container_id(before)


async def test_after_a_reboot_containers_start_again_the_disk_stays_and_memory_is_empty(
    bed: Bed, plain: KubeletNode, run: Run
) -> None:
    before = await run(plain, "again")
    await plain.run_text(["touch", "/var/lib/kept", "/run/lost"])
    program = await plain.spawn("idle", ["sleep", "1000"])
    first = (address := plain.address), program.pid
    await plain.reboot()
    after = await until_running(bed, "again", restarts=1)
    assert container_id(after) != container_id(before)
    assert await plain.run_text(["ls", "/var/lib/kept"]) == "/var/lib/kept\n"
    with pytest.raises(DevkitError, match="No such file"):
        await plain.run_text(["ls", "/run/lost"])
    assert program.running
    assert program.pid != first[1]
    assert plain.address == address
    await program.stop()


async def test_a_spawned_program_sees_the_nodes_own_folders_and_can_be_paused_and_killed(
    plain: KubeletNode,
) -> None:
    url = f"http://{plain.address}:8080/"
    argv = [sys.executable, "-u", "-c", SERVER, plain.address, "8080"]
    program = await plain.spawn("server", argv, env={"MINE": "yes"}, ready=url)
    sockets = await plain.run_text(
        ["ls", "/var/lib/kubelet/device-plugins", "/var/lib/kubelet/pod-resources"]
    )
    assert sockets.count("kubelet.sock") == 2
    assert plain.path("/var/lib/kubelet/device-plugins/kubelet.sock").is_socket()
    await plain.pause("server")
    assert not await url_ready(url)()
    await plain.resume("server")
    assert await url_ready(url)()
    await plain.kill("server")
    assert not program.running
    assert not await url_ready(url)()


async def test_a_spawned_program_may_exit(plain: KubeletNode) -> None:
    polite = await plain.spawn("polite", ["sh", "-c", "trap 'exit 7' TERM; echo up; sleep 1000 & wait"])

    async def up() -> bool:
        return "up" in polite.command.log.read_text()

    await until(up, "the trap to be set")
    polite.kill(signal.SIGTERM)
    assert await polite.wait() == 7
    rude = await plain.spawn("rude", ["sh", "-c", "kill -9 $$"])
    assert await rude.wait() == -signal.SIGKILL


async def test_a_program_on_the_node_reaches_the_api_server_until_it_is_cut_off(
    bed: Bed, plain: KubeletNode
) -> None:
    kubectl = str(bed.components.tools["kubectl"].path)
    ask = [kubectl, f"--kubeconfig={bed.kubeconfig}", "get", "--raw=/readyz"]
    assert await plain.run_text(ask) == "ok"
    await plain.pause("api")
    with pytest.raises(DevkitError, match=r"(?i)timeout|deadline"):
        await plain.run_text([*ask, "--request-timeout=2s"])
    await plain.resume("api")
    assert await plain.run_text(ask) == "ok"


async def test_the_spec_that_runc_got_shows_environment_and_mounts(plain: KubeletNode, run: Run) -> None:
    await run(plain, "shown", env=[{"name": "GIVEN", "value": "1"}], mounts={"/given": "/etc/cni"})
    spec = await plain.oci_spec("shown", "main")
    assert "GIVEN=1" in spec["process"]["env"]
    assert ("/given", "/etc/cni") in {(each["destination"], each["source"]) for each in spec["mounts"]}
    with pytest.raises(DevkitError, match="container other of pod default/shown on gpu-a"):
        await plain.oci_spec("shown", "other", timeout_s=0.1)


async def test_a_pod_that_sets_the_visible_devices_itself_sees_no_gpu(nvidia: KubeletNode, run: Run) -> None:
    await run(nvidia, "greedy", env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}])
    assert cards_of(await nvidia.oci_spec("greedy", "main")) == set()


async def test_a_privileged_pod_that_sets_the_visible_devices_sees_all_gpus(
    nvidia: KubeletNode, run: Run
) -> None:
    env = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    await run(nvidia, "mighty", env=env, securityContext={"privileged": True})
    assert cards_of(await nvidia.oci_spec("mighty", "main")) == {"/dev/nvidia0", "/dev/nvidia1"}


@pytest.mark.parametrize("variable", [DEVICE_MOUNTS, "all"])
async def test_a_mount_selects_one_gpu_regardless_of_the_variable(
    nvidia: KubeletNode, run: Run, variable: str
) -> None:
    env = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": variable}]
    name = f"modest-{len(variable)}"
    await run(nvidia, name, env=env, mounts={f"{DEVICE_MOUNTS}/GPU-bbbb": "/dev/null"})
    assert cards_of(await nvidia.oci_spec(name, "main")) == {"/dev/nvidia1"}


async def test_a_second_node_of_the_same_name_is_rejected(bed: Bed, plain: KubeletNode) -> None:
    with pytest.raises(ConfigError, match="already has a node 'gpu-a'"):
        await add_kubelet(bed, PLAIN)
    assert await plain.run_text(["hostname"]) == "gpu-a\n"


def is_there(path: str) -> bool:
    return Path(path).exists()


def kernel_settings() -> list[str]:
    return [Path("/proc/sys", name).read_text() for name in ("kernel/panic", "vm/overcommit_memory")]


def traces(folder: Path) -> set[str]:
    """Return the traces of a bed's nodes on this machine."""
    prefix = cgroups.prefix_of(folder)
    found = {str(path) for path in cgroups.ROOT.glob(f"*/{prefix}*")}
    # The devices of other testbeds on this machine come and go.
    device = KubeletLayout(PLAIN.name, folder, data_folder(folder)).device
    found |= {device} if is_there(f"/sys/class/net/{device}") else set()
    found |= {line for line in Path("/proc/self/mountinfo").read_text().splitlines() if prefix in line}
    return found | ({str(data_folder(folder))} if data_folder(folder).exists() else set())


async def test_a_bed_that_closes_leaves_nothing_behind() -> None:
    settings = kernel_settings()
    async with Testbed(kwok=False) as bed:
        node = await add_kubelet(bed, PLAIN)
        await node.spawn("idle", ["sleep", "1000"])
        holder = node.process("node").pid
        assert traces(bed.folder)
    assert traces(bed.folder) == set()
    assert not is_there(f"/proc/{holder}")
    assert kernel_settings() == settings


async def test_a_node_with_the_pids_of_this_machine_ends_with_its_containers() -> None:
    async with Testbed(kwok=False) as bed:
        node = await add_kubelet(bed, KubeletSpec("gpu-c", host_pid=True))
        await bed.create_pods([sleeper("sleeps", node.name)])
        await until_running(bed, "sleeps")
        spec = await node.oci_spec("sleeps", "main")
        (init,) = (
            file for file in node.path(BUNDLES).glob("*/init.pid") if spec_of_bundle(file.parent) == spec
        )
        process = Path(f"/proc/{init.read_text()}")
        assert (process / "comm").read_text() == "sleep\n"

    async def is_reaped() -> bool:
        return not is_there(str(process))

    # By its new parent, the first process of the machine.
    await until(is_reaped, "the process of the container to be reaped")
    assert traces(bed.folder) == set()


def sleeper(name: str, node: str) -> dict[str, Any]:
    main = {"name": "main", "image": BUSYBOX_IMAGE, "command": ["sleep", "1000"]}
    return {"metadata": {"name": name}, "spec": {"nodeName": node, "containers": [main]}}


def spec_of_bundle(bundle: Path) -> Any:
    return json.loads((bundle / "config.json").read_text())


async def test_nodes_end_with_a_killed_owner_and_the_next_start_removes_their_traces(bed_name: str) -> None:
    folder = bed_folder(bed_name, cache_root())
    owner = await asyncio.create_subprocess_exec(
        sys.executable, "-c", OWNER, bed_name, cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    assert owner.stdout is not None
    assert await asyncio.wait_for(owner.stdout.readline(), 120 * timeout_factor()) == b"open\n"
    owner.kill()
    await owner.wait()

    async def empty() -> bool:
        groups = cgroups.ROOT.glob(f"*/{cgroups.prefix_of(folder)}*/cgroup.procs")
        return not any(procs.read_text() for procs in groups)

    await until(empty, "all processes to be killed")
    clean(folder)

    async def nothing() -> bool:
        return traces(folder) == set()

    await until(nothing, "all traces to be gone")
