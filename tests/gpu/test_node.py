"""Pods that share a real GPU: control plane, scheduler, kubelet, NVIDIA's runtime and all our daemons.

The node is one of the testbed; the driver is that of the machine. The programs are those of ``samples``.
"""

import asyncio
import json
import shlex
import statistics
import sys
from collections.abc import AsyncIterator, Mapping

import pytest
import pytest_asyncio

from gpushare import contract
from gpushare.adapters.nvml import Nvml
from gpushare.deviceplugin.core.xids import RESET_XIDS
from gpushare.model.cards import share_mib
from gpushare.model.hardware import Gpu
from testbed import until
from testbed.control_plane.api import Object
from testbed.daemons import console_script
from testbed.daemons.exporter import grant_exporter
from testbed.kubelets import needs
from tests.gpu.conftest import FAILS, ILLEGAL_ADDRESS
from tests.support.builders import python_image
from tests.support.fixtures import enforced_nodes
from tests.support.fixtures.boards import running_board
from tests.support.fixtures.driver_nodes import DriverNode, add_driver_node
from tests.support.fixtures.gpu_nodes import (
    PODS,
    clear,
    container,
    gpu_bed,
    metric,
    node_object,
    pod,
    remove,
    running,
    until_allocatable,
    until_event,
)
from tests.support.fixtures.isolation import PRELUDE

pytestmark = [pytest.mark.needs("kubelet"), pytest.mark.asyncio(loop_scope="module")]

IMAGE = "docker.io/testbed/samples:1"
UNITS = 4
HELD_MIB = 2000
CONTEXT_MIB = 1000
"""More than a context of any GPU has."""
PERCENT = 25
SETTLE_S, MEASURE_S = 10, 20
START_S = 60
MIB = 1 << 20
NAMES = ("first", "second")
HOLD = f"exec python3 /bin/cuda_malloc -size={HELD_MIB} -hold"
BUSY = """exec python3 -c '
from samples.driver import Driver
driver = Driver()
driver.open(0)
kernel = driver.kernel()
while True:
    driver.launch(kernel, 2_000_000)
    driver.wait()
'"""
NVML_TOTAL = """python3 -c '
import ctypes as c
nvml = c.CDLL("libnvidia-ml.so.1")
nvml.nvmlInit_v2()
device, memory = c.c_void_p(), (c.c_ulonglong * 3)()
nvml.nvmlDeviceGetHandleByIndex_v2(0, c.byref(device))
nvml.nvmlDeviceGetMemoryInfo(device, memory)
print(memory[0] >> 20)
'"""
ENV = [{"name": name, "value": value} for name, value in python_image.ENV.items()]


@pytest.fixture(scope="module")
def units(gpu: Gpu) -> int:
    """The units of the GPU, of a GiB each."""
    return gpu.mib // 1024


@pytest.fixture(scope="module")
def limit_mib(gpu: Gpu, units: int) -> int:
    return share_mib(gpu.mib, UNITS, units)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(gpu: Gpu, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[DriverNode]:
    """A node of mode cgpu, whose pods get one GPU of the machine; without a GPU nothing is started."""
    folder = tmp_path_factory.mktemp("node")
    package = enforced_nodes.library(folder / "library")
    archive = folder / "samples.tar"
    python_image.save(archive, IMAGE, needs.look().busybox)
    async with gpu_bed() as found:
        await grant_exporter(found.bed)
        yield await add_driver_node(found.bed, "cgpu", package, [archive], await others(gpu))


async def others(gpu: Gpu) -> list[int]:
    """The indices of the other GPUs."""
    async with Nvml() as driver:
        return [each.index for each in (await driver.inventory()).gpus if each.uuid != gpu.uuid]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pair(node: DriverNode) -> list[Object]:
    """Two pods of four units, whose programs have allocated memory."""
    await node.bed.create_pods([pod(name, program(HOLD)) for name in NAMES])
    found = [await running(node.bed, name, START_S) for name in NAMES]
    for name in NAMES:
        await until_holding(node, name)
    return found


def program(script: str, core: int = 0, units: int = UNITS) -> Object:
    return container(units, core=core, image=IMAGE, script=script, env=ENV)


async def until_holding(node: DriverNode, name: str) -> None:
    async def holds() -> bool:
        shown = await node.bed.kubectl("logs", name)
        assert "CUDA error" not in shown, shown
        return "Holding" in shown

    await until(holds, f"{name} to hold its memory", START_S)


async def inside(node: DriverNode, name: str, command: str) -> list[str]:
    """The output of a command in a container by line; the last one is its exit code."""
    shown = await node.bed.kubectl("exec", name, "--", "sh", "-c", f"({command}) 2>&1; echo $?")
    return shown.splitlines()


async def allocated(node: DriverNode) -> dict[str, int]:
    """The units of each pod, from `kubectl inspect gpushare`."""
    (shown,) = (await node.document("kubectl-inspect-gpushare"))["items"]
    return {each["name"]: each["used"] for card in shown["cards"] for each in card["pods"]}


async def until_used_mib(node: DriverNode, name: str, low: float, high: float) -> None:
    """Wait until the exporter shows that memory for a pod; it reads the driver every few seconds."""
    seen: dict[tuple[str, ...], float] = {}

    async def shown() -> bool:
        seen.update(await node.exporter.values("DCGM_CUSTOM_PROCESS_MEM_USED", "PodName"))
        return low <= seen.get((name,), 0) <= high

    try:
        await until(shown, f"{low} to {high} MiB of {name}", 30)
    finally:
        report(f"the driver reports MiB by pod: {seen}")


def report(text: str) -> None:
    """Show a measurement, which `make test-gpu` prints."""
    sys.stdout.write(f"{text}\n")


# --- mode cgpu ----------------------------------------------------------------------------------


async def test_the_node_offers_the_memory_of_its_gpu(node: DriverNode, gpu: Gpu, units: int) -> None:
    notes = (await node_object(node))["metadata"]["annotations"]
    cards = json.loads(notes[contract.ANN_CARDS])
    report(f"cards: {cards}")
    (card,) = (each for each in cards if each["uuid"] == gpu.uuid)
    assert (card["model"], card["mib"], card["units"]) == (gpu.model, gpu.mib, units)
    await until_allocatable(node, sum(each["units"] for each in cards))


async def test_two_pods_run_on_the_gpu_and_each_sees_its_limit(
    node: DriverNode, gpu: Gpu, pair: list[Object], limit_mib: int
) -> None:
    assert [each["spec"]["nodeName"] for each in pair] == [node.name, node.name]
    for name in NAMES:
        shown = await node.bed.kubectl("logs", name)
        report(shown)
        assert f'Device 0: "{gpu.model}"' in shown
        assert f"{limit_mib} MBytes ({limit_mib * MIB} bytes)" in shown
        assert await inside(node, name, NVML_TOTAL) == [f"{limit_mib}", "0"]


async def test_memory_is_refused_with_code_2_beyond_the_limit_only(
    node: DriverNode, pair: list[Object], limit_mib: int
) -> None:
    del pair
    *_, refused, code = await inside(node, "second", f"python3 /bin/cuda_malloc -size={limit_mib - HELD_MIB}")
    report(refused)
    assert "code=2(cudaErrorMemoryAllocation)" in refused
    assert code == "1"
    shown = await inside(node, "second", "python3 /bin/cuda_malloc -size=256")
    assert shown[-1] == "0", shown


async def test_the_exporter_shows_the_memory_of_each_pod(
    node: DriverNode, pair: list[Object], limit_mib: int
) -> None:
    del pair
    for name in NAMES:
        await until_used_mib(node, name, HELD_MIB, HELD_MIB + CONTEXT_MIB)
    for metric_name in ("DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_POWER_USAGE"):
        values = await node.exporter.values(metric_name, "gpu")
        report(f"{metric_name}: {values}")
        assert all(value > 0 for value in values.values())
    limits = await node.exporter.values("gpushare_container_memory_limit_bytes", "pod")
    assert limits == {(name,): limit_mib * MIB for name in NAMES}


async def test_our_commands_show_the_pods_and_their_limits(
    node: DriverNode, pair: list[Object], limit_mib: int, units: int
) -> None:
    del pair
    report(await node.command("kubectl-inspect-gpushare", "-d"))
    report(await node.command("kubectl-gpushare", "limits"))
    assert await allocated(node) == dict.fromkeys(NAMES, UNITS)
    assert f"{2 * UNITS}/{units}" in await node.command("kubectl-inspect-gpushare")
    shown = {each["pod"]: each for each in (await node.document("kubectl-gpushare", "limits"))["items"]}
    assert shown.keys() == set(NAMES)
    for each in shown.values():
        assert each["limitBytes"] == limit_mib * MIB
        assert HELD_MIB * MIB <= each["usedBytes"] <= each["limitBytes"]
        assert HELD_MIB * MIB <= each["driverBytes"] <= each["limitBytes"]
    assert shown["second"]["refusals"] == 1


async def test_the_board_shows_the_usage_of_the_pods(node: DriverNode, pair: list[Object]) -> None:
    del pair
    arguments = ("board", "--kubeconfig", str(node.bed.kubeconfig))
    async with running_board(console_script("kubectl-gpushare"), *arguments) as board:

        async def shown() -> dict[str, tuple[int, int]] | None:
            pods = {each["name"]: each for each in (await board.document())["pods"]}
            report(f"board: {pods}")
            found = {name: (pods[name]["usedBytes"] or 0, pods[name]["units"]) for name in NAMES}
            return found if all(used for used, _ in found.values()) else None

        pods = await until(shown, "the board to read the exporter", 30)
    for used, units in pods.values():
        assert HELD_MIB * MIB <= used <= (HELD_MIB + CONTEXT_MIB) * MIB
        assert units == UNITS


async def test_a_program_that_fails_leaves_the_gpu_and_the_other_pod_in_use(
    node: DriverNode, pair: list[Object], gpu: Gpu, units: int
) -> None:
    del pair
    shown = await inside(node, "second", f"python3 -c {shlex.quote(PRELUDE + FAILS)}")
    assert shown == [f"[{ILLEGAL_ADDRESS}]", "0"]

    async def noticed() -> bool:
        reported = await node.exporter.values("gpushare_card_xid_errors_total", "uuid", "xid")
        counted = await metric(node, "gpushare_device_plugin_xid_errors_total", uuid=gpu.uuid)
        report(f"XID errors: exporter {reported}, agent {counted:g}")
        return counted > 0 and any(uuid == gpu.uuid for uuid, _ in reported)

    await until(noticed, "agent and exporter to count the XID error", 30)
    last = await node.exporter.values("DCGM_FI_DEV_XID_ERRORS", "UUID")
    assert int(last[gpu.uuid,]) not in RESET_XIDS
    cards = json.loads((await node_object(node))["metadata"]["annotations"][contract.ANN_CARDS])
    assert all(each["healthy"] for each in cards), cards
    await until_allocatable(node, sum(each["units"] for each in cards))
    await until_used_mib(node, "first", HELD_MIB, HELD_MIB + CONTEXT_MIB)
    assert await inside(node, "first", "python3 /bin/cuda_malloc -size=256 > /dev/null") == ["0"]
    report(await node.command("kubectl-inspect-gpushare"))
    assert f"{2 * UNITS}/{units}" in await node.command("kubectl-inspect-gpushare")


async def test_a_pod_that_does_not_fit_waits_with_the_reason(
    node: DriverNode, pair: list[Object], units: int
) -> None:
    del pair
    await node.bed.create_pods([pod("large", program(HOLD, units=units - UNITS))])
    free = units - 2 * UNITS
    text = await until_event(node.bed, "large", lambda text: f"at most {free} of {units} free" in text)
    report(text)
    assert f"asked {units - UNITS}" in text
    await remove(node.bed, "large")


async def test_a_deleted_pod_returns_its_units(node: DriverNode, pair: list[Object]) -> None:
    del pair
    await remove(node.bed, "second")

    async def freed() -> bool:
        return await allocated(node) == {"first": UNITS}

    await until(freed, "the units of the pod to be free")
    await until(lambda: has_pods(node, 1), "the agent to notice")
    await until_used_mib(node, "first", HELD_MIB, HELD_MIB + CONTEXT_MIB)


async def has_pods(node: DriverNode, count: int) -> bool:
    return await metric(node, "gpushare_device_plugin_pods") == count


# --- mode core_mem ------------------------------------------------------------------------------


async def test_a_busy_pod_gets_its_percentage_of_the_gpus_time(node: DriverNode, pair: list[Object]) -> None:
    del pair
    await offer_compute(node)
    ((_, shares),) = (await measured_shares(node, {"busy": PERCENT})).items()
    assert statistics.mean(shares) == pytest.approx(PERCENT, abs=5)


async def test_two_busy_pods_get_their_percentages(node: DriverNode, pair: list[Object]) -> None:
    del pair
    await offer_compute(node)
    percents = {"small": PERCENT, "large": 100 - PERCENT}
    for name, shares in (await measured_shares(node, percents)).items():
        assert statistics.mean(shares) == pytest.approx(percents[name], abs=6)


async def offer_compute(node: DriverNode) -> None:
    """Remove the pods of the node and let it offer compute shares."""
    await clear(node.bed, node)
    labels = {contract.LABEL_MODE: "core_mem"}
    await node.bed.api.patch(f"/api/v1/nodes/{node.name}", {"metadata": {"labels": labels}})
    await until(lambda: offers_compute(node), "the node to offer compute shares", 30)


async def offers_compute(node: DriverNode) -> bool:
    allocatable: dict[str, str] = (await node_object(node))["status"]["allocatable"]
    return allocatable.get(contract.RESOURCE_CORE, "0") != "0"


async def measured_shares(node: DriverNode, percents: Mapping[str, int]) -> dict[str, list[float]]:
    """Run busy pods with these percentages; what the exporter shows for each second after they settled."""
    await node.bed.create_pods([pod(name, program(BUSY, core=core)) for name, core in percents.items()])
    for name in percents:
        await running(node.bed, name, START_S)

    async def work() -> bool:
        seen = await shares_now(node)
        return all(seen.get(name, 0) > 0 for name in percents)

    await until(work, "the pods to use the GPU", START_S)
    shares: dict[str, list[float]] = {name: [] for name in percents}
    for _ in range(SETTLE_S + MEASURE_S):
        await asyncio.sleep(1)  # the interval of samples, not a wait for something
        seen = await shares_now(node)
        for name in percents:
            shares[name].append(seen.get(name, 0))
    report(f"% of the GPU's time in each second: {shares}")
    for name in percents:
        (status,) = (await node.bed.api.get(f"{PODS}/{name}"))["status"]["containerStatuses"]
        assert status["restartCount"] == 0, status
    return {name: each[SETTLE_S:] for name, each in shares.items()}


async def shares_now(node: DriverNode) -> dict[str, float]:
    values = await node.exporter.values("DCGM_CUSTOM_PROCESS_SM_UTIL", "PodName")
    return {name: value for (name,), value in values.items()}
