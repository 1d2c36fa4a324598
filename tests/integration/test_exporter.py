"""The real exporter on real kubelets, with a stub of NVML and a scripted load."""

import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from gpushare import contract
from gpushare.adapters.pids import inner_pids
from gpushare.contract import RESOURCE_WHOLE_GPU
from gpushare.errors import ApiError
from gpushare.isolation.layout import DirectoryOwner, link_of
from gpushare.isolation.limits import CardLimit
from testbed import Bed, DevkitError, until
from testbed.control_plane.api import read_text
from testbed.cuda import CudaCard, CudaStub
from testbed.daemons.agent import GpuNode, add_card_node, add_gpu_node
from testbed.daemons.exporter import ACCOUNT, ExporterProcess, grant_exporter, start_exporter
from testbed.daemons.whole_gpu_plugin import start_whole_gpu_plugin
from testbed.kubelets import KubeletSpec
from testbed.nvml import ERAS, GpuProcess, NvmlStub, card
from tests.support.fixtures.gpu_nodes import SHARING, clear, container, gpu_bed, pod, running, start_pods
from tests.support.fixtures.isolation import PRELUDE, Container, build, needs_compiler
from tests.support.recount import pid_of

pytestmark = [pytest.mark.needs("kubelet"), pytest.mark.asyncio(loop_scope="module")]

SM = "DCGM_CUSTOM_PROCESS_SM_UTIL"
USED = "DCGM_CUSTOM_PROCESS_MEM_USED"
ALLOCATED = "DCGM_CUSTOM_CONTAINER_MEM_ALLOCATED"
QUICK = ["--interval-seconds=0.3", "--deadline-seconds=2", "--stale-seconds=6"]
HANGS_S = 12.0
"""Longer than the deadline of a source and the time after which its values are stale, together."""
SOURCES = ("nvml", "cgroups", "cpus", "pod-resources", "pods", "node", "isolation")
MIB = 1024 * 1024
COUNTED = "gpushare_container_memory_counted_bytes"
UNHELD = "gpushare_card_unheld_processes"
CONTAINER = ("pod", "container", "card")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bed() -> AsyncIterator[Bed]:
    async with gpu_bed() as found:
        await grant_exporter(found.bed)
        yield found.bed


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(bed: Bed) -> GpuNode:
    """Two shared T4; the agent ignores failures of the driver, which the tests cause."""
    flags = ["--health-check=false"]
    return await add_gpu_node(bed, KubeletSpec("shared", labels=SHARING), 2 * [card("T4")], flags=flags)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def exporter(shared: GpuNode) -> ExporterProcess:
    return await start_exporter(shared, QUICK)


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def nothing_left(bed: Bed, shared: GpuNode) -> AsyncIterator[None]:
    yield
    await clear(bed, shared)
    for index in range(2):
        shared.stub.set(index, processes=(), lost=False, gpu_util=0)


async def test_a_replaced_driver_ends_the_exporter(shared: GpuNode) -> None:
    stub = NvmlStub(shared.bed.folder / "nvml-replaced", cards=[card("T4")])
    found = await start_exporter(shared, QUICK, name="exporter-of-old-driver", port=12399, stub=stub)
    stub.load_driver("580.95.05")
    assert await found.process.wait(60) == 1
    assert "gpushare exporter: the NVIDIA kernel driver was replaced" in found.process.command.log.read_text()


async def shows(
    exporter: ExporterProcess,
    expected: dict[Any, float],
    metric: str,
    *by: str,
    timeout_s: float = 15,
    **labels: str,
) -> None:
    """Wait until a scrape returns exactly these values."""
    seen: dict[Any, float] = {}

    async def reported() -> bool:
        seen.clear()
        seen.update(await exporter.values(metric, *by, **labels))
        return seen == expected

    try:
        await until(reported, metric, timeout_s, 0.1)
    except DevkitError:
        assert seen == expected
        raise


async def up(exporter: ExporterProcess, *down: str, timeout_s: float = 20) -> None:
    """Wait until exactly these sources are down."""
    expected = {(name,): float(name not in down) for name in SOURCES}
    await shows(exporter, expected, "gpushare_exporter_source_up", "source", timeout_s=timeout_s)


async def share(bed: Bed, name: str, units: int) -> None:
    await start_pods(bed, pod(name, container(units), nodeSelector={"kubernetes.io/hostname": "shared"}))


def program_in(node: GpuNode, pid: int, isolated: Container, code: str) -> "subprocess.Popen[str]":
    """Start a client of the driver in the cgroup and the PID namespace of a container's process."""
    join = f"""
    for group in $(sed -n 's/^[0-9]*:\\(pids\\|\\):/\\1/p' /proc/{pid}/cgroup); do
        echo $$ > /sys/fs/cgroup/$group/cgroup.procs
    done
    exec nsenter --target {pid} --pid -- unshare --mount -- \\
        sh -c 'mount -t proc proc /proc && exec "$@"' sh "$@"
    """
    client = [sys.executable, "-S", "-c", PRELUDE + code]
    given = [f"{key}={value}" for key, value in isolated.env.items()]
    return subprocess.Popen(  # noqa: S603 - our own program
        node.kubelet.inside(["sh", "-c", join, "sh", "env", *given, *client]),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def pid_called(node: GpuNode, neighbor: int, inner: int) -> int:
    """The PID on the node of the process that has the PID ``inner`` in the namespace of ``neighbor``.

    Other containers of the pod, its sandbox too, have processes of that number.
    """
    folder = node.kubelet.path("/proc")
    names = inner_pids((int(each.name) for each in folder.glob("[0-9]*")), folder)
    called = [folder / str(pid) for pid, name in names.items() if name == inner]
    (process,) = (each for each in called if beside(each, folder / str(neighbor)))
    return int(process.name)


def beside(process: Path, other: Path) -> bool:
    """Whether both run in one PID namespace; false for one that has ended."""
    try:
        return (process / "ns/pid").samefile(other / "ns/pid")
    except FileNotFoundError:
        return False


async def card_of(bed: Bed, name: str) -> int:
    notes = (await bed.api.get(f"/api/v1/namespaces/default/pods/{name}"))["metadata"]["annotations"]
    return int(notes[contract.ANN_IDX])


@pytest.mark.short
async def test_every_source_is_up(exporter: ExporterProcess) -> None:
    await up(exporter)
    assert await read_text(f"{exporter.url}/healthz") == "ok"


@pytest.mark.short
async def test_simulated_values_are_exported_exactly(
    bed: Bed, shared: GpuNode, exporter: ExporterProcess
) -> None:
    await share(bed, "busy", 4)
    await share(bed, "idle", 6)
    busy, idle = await card_of(bed, "busy"), await card_of(bed, "idle")
    pid = pid_of(shared, "busy")
    shared.stub.set(
        busy,
        processes=(GpuProcess(pid, used_mib=3001, sm=23, memory=5),),
        gpu_util=24,
        temperature=32,
        power_mw=55_500,
    )
    await shows(exporter, {("busy",): 23, ("idle",): 0}, SM, "PodName")
    assert await exporter.values(USED, "PodName") == {("busy",): 3001, ("idle",): 0}
    assert await exporter.values(ALLOCATED, "PodName") == {
        ("busy",): 15079 * 4 // 14,
        ("idle",): 15079 * 6 // 14,
    }
    labels = ("NodeName", "NamespaceName", "PodName", "ContainerName", "UUID", "gpu", "device", "modelName")
    key = (
        "shared",
        "default",
        "busy",
        "main",
        shared.stub.uuid(busy),
        f"{busy}",
        f"nvidia{busy}",
        "Tesla T4",
    )
    assert await exporter.values(SM, *labels, PodName="busy") == {key: 23}
    for metric, value in (("GPU_UTIL", 24), ("FB_USED", 3001), ("GPU_TEMP", 32), ("POWER_USAGE", 55.5)):
        assert await exporter.values(f"DCGM_FI_DEV_{metric}", gpu=f"{busy}") == {(): value}
    total = await exporter.values("container_accelerator_memory_total_bytes", "acc_id", pod="idle")
    assert total == {(shared.stub.uuid(idle),): 15079 * 1024 * 1024}


@pytest.mark.short
async def test_a_process_of_the_node_itself_has_no_pod(shared: GpuNode, exporter: ExporterProcess) -> None:
    pid = int(await shared.kubelet.run_text(["sh", "-c", "echo $PPID"]))
    shared.stub.processes(0, [GpuProcess(pid or 1, used_mib=7)])
    await shows(exporter, {("", "", ""): 7}, USED, "NamespaceName", "PodName", "ContainerName")


async def test_a_container_that_is_killed_is_idle_again(
    bed: Bed, shared: GpuNode, exporter: ExporterProcess
) -> None:
    await share(bed, "killed", 4)
    index, pid = await card_of(bed, "killed"), pid_of(shared, "killed")
    shared.stub.processes(index, [GpuProcess(pid, used_mib=100, sm=50)])
    await shows(exporter, {("killed",): 50}, SM, "PodName")
    await shared.kubelet.run_text(["kill", "-9", str(pid)])
    await running(bed, "killed", restarts=1)
    # The stub still lists the PID, as drivers do for a moment; the process is gone.
    shared.stub.processes(index, [GpuProcess(pid, 100, 50), GpuProcess(pid_of(shared, "killed"), 200, 5)])
    await shows(exporter, {("killed",): 200}, USED, "PodName")


@pytest.mark.short
async def test_a_deleted_pod_has_no_series(bed: Bed, shared: GpuNode, exporter: ExporterProcess) -> None:
    await share(bed, "leaves", 4)
    await shows(exporter, {("leaves",): 0}, SM, "PodName")
    await clear(bed, shared)
    await shows(exporter, {}, SM, "PodName")
    assert await exporter.values(ALLOCATED, "PodName") == {}


@pytest.mark.short
async def test_a_lost_gpu_affects_only_its_own_series(
    bed: Bed, shared: GpuNode, exporter: ExporterProcess
) -> None:
    await share(bed, "stays", 4)
    index = await card_of(bed, "stays")
    shared.stub.lose(1 - index)
    await shows(exporter, {(f"{index}",): 0}, "DCGM_FI_DEV_GPU_UTIL", "gpu")
    assert await exporter.values(SM, "PodName") == {("stays",): 0}
    assert await exporter.values("gpushare_exporter_unreadable_cards") == {(): 1}
    await up(exporter)
    shared.stub.restore(1 - index)
    await shows(exporter, {("0",): 0, ("1",): 0}, "DCGM_FI_DEV_GPU_UTIL", "gpu")


async def test_a_driver_that_hangs_delays_no_scrape(shared: GpuNode, exporter: ExporterProcess) -> None:
    shared.stub.hang()
    took, begun = list[float](), time.monotonic()
    try:
        while time.monotonic() - begun < HANGS_S:
            asked = time.monotonic()
            await read_text(f"{exporter.url}/metrics", timeout_s=20)
            took.append(time.monotonic() - asked)
            await asyncio.sleep(0.2)
        await up(exporter, "nvml")
        assert await exporter.values("DCGM_FI_DEV_GPU_UTIL", "gpu") == {}
        assert await read_text(f"{exporter.url}/healthz") == "ok"
    finally:
        shared.stub.release()
    # One that waited for the driver would take 2 s, the deadline of a source.
    assert statistics.median(took) < 1
    await up(exporter)


async def test_an_unavailable_kubelet_affects_only_its_own_series(
    bed: Bed, shared: GpuNode, exporter: ExporterProcess
) -> None:
    await share(bed, "stays", 4)
    await shared.kubelet.stop("kubelet")
    await up(exporter, "pod-resources")
    assert await exporter.values(ALLOCATED, "PodName") == {("stays",): 4308}
    assert await exporter.values(SM, "PodName") == {("stays",): 0}
    await shared.kubelet.start("kubelet")
    await up(exporter)
    await shared.until_offered()


async def test_without_the_api_server_gpus_are_exported_without_usage_of_pods(
    bed: Bed, shared: GpuNode, exporter: ExporterProcess
) -> None:
    await share(bed, "stays", 4)
    await shared.kubelet.stop("api")
    await up(exporter, "pods", "node", timeout_s=40)
    assert await exporter.values(SM, "PodName") == {}
    assert len(await exporter.values("DCGM_FI_DEV_GPU_UTIL", "gpu")) == 2
    await shared.kubelet.start("api")
    await up(exporter, timeout_s=40)
    await shows(exporter, {("stays",): 0}, SM, "PodName")


async def test_whole_gpus_come_from_the_kubelet(bed: Bed) -> None:
    node = await add_card_node(bed, KubeletSpec("whole"), 2 * [card("V100")])
    await start_whole_gpu_plugin(node)
    exporter = await start_exporter(node, QUICK)
    asks = container(0, resources={"limits": {RESOURCE_WHOLE_GPU: "1"}})
    await start_pods(bed, pod("bert", asks, nodeSelector={"kubernetes.io/hostname": "whole"}))
    await shows(exporter, {("bert",): 16130}, ALLOCATED, "PodName")
    await shows(exporter, {("bert",): 0}, SM, "PodName")
    ((uuid,),) = await exporter.values(ALLOCATED, "UUID")
    index = [each.uuid for each in node.stub.description.cards].index(uuid)
    node.stub.processes(index, [GpuProcess(pid_of(node, "bert"), used_mib=15343, sm=23)])
    await shows(exporter, {("bert",): 15343}, USED, "PodName")
    assert await exporter.values(SM, "PodName", "gpu") == {("bert", f"{index}"): 23}
    await node.kubelet.close()
    await bed.delete_node("whole")


@pytest.mark.parametrize("era", ERAS)
async def test_drivers_of_every_era_are_read(shared: GpuNode, era: int) -> None:
    stub = NvmlStub(shared.bed.folder / f"nvml-era-{era}", era=era, cards=[card("T4"), card("A100-80G")])
    stub.processes(1, [GpuProcess(1, used_mib=100, sm=5)])
    exporter = await start_exporter(shared, QUICK, name=f"era-{era}", port=13000 + era, stub=stub)
    await up(exporter)
    assert await exporter.values("gpushare_card_memory_bytes", "card") == {
        ("0",): 15079 * 1024 * 1024,
        ("1",): 81251 * 1024 * 1024,
    }
    assert await exporter.values(USED, "PodName") == {("",): 100}
    assert await exporter.values(SM, "PodName") == {("",): 5}
    assert bool(await exporter.values("DCGM_FI_DEV_FB_RESERVED", "gpu")) == (era >= 510)
    assert bool(await exporter.values("gpushare_card_remapped_rows", "kind")) == (era >= 450)
    await exporter.process.stop()


async def test_the_exporter_starts_without_a_driver_and_reports_that(shared: GpuNode) -> None:
    stub = NvmlStub(shared.bed.folder / "nvml-none", cards=[card("T4")])
    stub.fail("nvmlInit", 9)
    exporter = await start_exporter(shared, QUICK, name="driverless", port=13001, stub=stub)
    await up(exporter, "nvml")
    log = exporter.process.command.log.read_text()
    assert "the NVIDIA kernel driver is not loaded" in log
    stub.heal()
    await up(exporter)
    await exporter.process.stop()


async def test_pids_have_separate_series_with_the_flag(bed: Bed, shared: GpuNode) -> None:
    await share(bed, "twofold", 4)
    index, pid = await card_of(bed, "twofold"), pid_of(shared, "twofold")
    shared.stub.processes(index, [GpuProcess(pid, used_mib=100), GpuProcess(1, used_mib=50)])
    exporter = await start_exporter(shared, [*QUICK, "--process-ids"], name="pids", port=13002)
    await shows(exporter, {("twofold", f"{pid}"): 100, ("", "1"): 50}, USED, "PodName", "pid")
    await exporter.process.stop()


@needs_compiler
@pytest.mark.short
async def test_memory_of_a_pod_is_exported_as_the_library_and_the_driver_count_it(
    bed: Bed, shared: GpuNode
) -> None:
    await share(bed, "held", 4)
    uid = (await bed.api.get("/api/v1/namespaces/default/pods/held"))["metadata"]["uid"]
    index = await card_of(bed, "held")
    folder = bed.folder / "isolation"
    state = folder / "state"
    place = state / "0123456789abcdef"
    place.mkdir(parents=True)
    link_of(state, DirectoryOwner(uid, "main")).symlink_to(place.name)
    uuid = shared.stub.uuid(index)
    cuda = CudaStub(folder / "cuda", cards=[CudaCard(uuid, 15079)])
    isolated = Container(place, build(folder / "library", place), cuda)
    isolated.limit(CardLimit(uuid, 15079, 4, 14))
    flags = [*QUICK, f"--isolation-state={state}"]
    exporter = await start_exporter(shared, flags, name="isolation", port=13003)
    prefix = COUNTED.removesuffix("counted_bytes")
    await shows(exporter, {("held", "main", f"{index}"): 4308 * MIB}, f"{prefix}limit_bytes", *CONTAINER)
    assert await exporter.values(COUNTED, "pod") == {("held",): 0}
    code = "context(); free(alloc(2000)[1]); alloc(1000); say(os.getpid(), alloc(5000)[0]); input()"
    held = pid_of(shared, "held")
    with program_in(shared, held, isolated, code) as client:
        assert client.stdout
        assert client.stdin
        inner, refused = json.loads(await asyncio.to_thread(client.stdout.readline))
        assert refused == 2
        pid = pid_called(shared, held, inner)
        assert pid != inner
        shared.stub.processes(index, [GpuProcess(pid, used_mib=1200)])
        await shows(exporter, {("held",): 200 * MIB}, f"{prefix}uncounted_bytes", "pod")
        assert await exporter.values(COUNTED, "pod") == {("held",): 1000 * MIB}
        assert await exporter.values(f"{prefix}counted_peak_bytes", "pod") == {("held",): 2000 * MIB}
        assert await exporter.values(f"{prefix}refusals_total", "pod") == {("held",): 1}
        assert await exporter.values(UNHELD, "card") == {(f"{index}",): 0}
        shared.stub.processes(index, [GpuProcess(pid, used_mib=1200), GpuProcess(1, used_mib=5)])
        await shows(exporter, {(f"{index}",): 1}, UNHELD, "card")
        client.stdin.close()
    (place / "region").write_bytes(b"spoilt")
    await shows(exporter, {(): 1}, "gpushare_exporter_unreadable_regions")
    assert await exporter.values(COUNTED, "pod") == {}
    assert len(await exporter.values(f"{prefix}limit_bytes", "pod")) == 1
    await up(exporter)
    await exporter.process.stop()


@pytest.mark.short
async def test_it_has_no_permission_that_it_does_not_need(bed: Bed) -> None:
    async with bed.api_for(ACCOUNT) as api:
        assert await api.items("/api/v1/pods") is not None
        for path in ("/api/v1/secrets", "/api/v1/configmaps"):
            with pytest.raises(ApiError):
                await api.items(path)
