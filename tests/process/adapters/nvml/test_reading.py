"""GPUs as the agent reads them, on drivers of all versions: the real pynvml over the stub."""

import pynvml
import pytest

from gpushare.adapters.nvml import Nvml
from gpushare.errors import GpuError
from gpushare.model.hardware import Inventory, Link
from testbed.nvml import ERAS, NvmlStub, Pair, card
from tests.support.fixtures.nvml import MakeDriver, needs_compiler

pytestmark = needs_compiler


async def read(stub: NvmlStub) -> Inventory:
    async with Nvml(sysfs=stub.sysfs) as gpus:
        return await gpus.inventory()


@pytest.mark.parametrize("era", ERAS)
async def test_every_driver_version_gives_the_sizes_of_the_ack_documentation(
    era: int, driver: MakeDriver
) -> None:
    cards = [card("T4"), card("P40"), card("V100"), card("TITAN Xp")]
    inventory = await read(driver(era=era, cards=cards))
    assert [gpu.mib for gpu in inventory.gpus] == [15079, 22919, 16130, 12196]
    assert [gpu.model for gpu in inventory.gpus] == [
        "Tesla T4",
        "Tesla P40",
        "Tesla V100-SXM2-16GB",
        "TITAN Xp",
    ]
    assert inventory.unreadable == {}
    assert inventory.driver.startswith(f"{era}.")


@pytest.mark.parametrize(
    ("era", "cuda", "mig"),
    [
        (418, "10.1", None),
        (440, "10.2", None),
        (470, "11.4", False),
        (535, "12.2", False),
        (580, "13.0", False),
    ],
)
async def test_values_that_a_driver_version_lacks_are_absent(
    era: int, cuda: str, mig: object, driver: MakeDriver
) -> None:
    inventory = await read(driver(era=era, cards=[card("A100-80G")]))
    assert inventory.cuda == cuda
    assert inventory.gpus[0].mig is mig
    assert inventory.gpus[0].mib == 81251


@pytest.mark.parametrize("era", [470, 580])
async def test_a_gpu_that_shares_the_memory_of_its_host_has_no_size_and_is_readable(
    era: int, driver: MakeDriver
) -> None:
    """Both versions of the function are not supported; drivers before 510 have only the first."""
    stub = driver(era=era, cards=[card("GB10"), card("T4")])
    inventory = await read(stub)
    assert inventory.unreadable == {}
    assert [(gpu.model, gpu.mib, gpu.unified) for gpu in inventory.gpus] == [
        ("NVIDIA GB10", 0, True),
        ("Tesla T4", 15079, False),
    ]
    async with Nvml(sysfs=stub.sysfs) as gpus:
        await gpus.inventory()
        assert [facts.failure for facts in (await gpus.facts()).values()] == [None, None]


async def test_the_memory_of_the_host_is_that_of_its_numa_nodes(driver: MakeDriver) -> None:
    stub = driver(era=580, cards=[card("GB10"), card("T4")])
    assert [gpu.host_mib for gpu in (await read(stub)).gpus] == [None, None]
    for number, kib in ((0, 127_600_748), (1, 1024)):
        file = stub.sysfs / f"devices/system/node/node{number}/meminfo"
        file.parent.mkdir(parents=True)
        file.write_text(f"Node {number} MemTotal:       {kib} kB\nNode {number} MemFree:  1 kB\n")
    assert [gpu.host_mib for gpu in (await read(stub)).gpus] == [124_611, None]


async def test_a_driver_that_reports_a_size_of_zero_reports_none(driver: MakeDriver) -> None:
    stub = driver(era=580, cards=[card("GB10", total_mib=0)])
    assert [(gpu.mib, gpu.unified) for gpu in (await read(stub)).gpus] == [(0, True)]


@pytest.fixture
def stub(driver: MakeDriver) -> NvmlStub:
    """Driver 535 with three T4."""
    return driver(era=535, cards=[card("T4")] * 3)


async def test_a_gpu_as_a_whole(stub: NvmlStub) -> None:
    stub.set(1, minor=7, numa=1, compute_mode=3, mig=1, uuid="GPU-1a2b", pci="00000000:3B:00.0")
    gpu = (await read(stub)).gpus[1]
    assert (gpu.index, gpu.uuid, gpu.minor, gpu.pci) == (1, "GPU-1a2b", 7, "00000000:3B:00.0")
    assert (gpu.numa, gpu.mig, gpu.compute_mode) == (1, True, "Exclusive_Process")


async def test_the_memory_in_use_does_not_change_a_gpus_size(stub: NvmlStub) -> None:
    stub.set(0, used_mib=9000)
    assert (await read(stub)).gpus[0].mib == 15079


@pytest.mark.parametrize("numa", [-1, None])
async def test_a_gpu_without_a_numa_node_has_none(stub: NvmlStub, numa: int | None) -> None:
    stub.set(0, numa=numa)
    assert (await read(stub)).gpus[0].numa is None


async def test_a_gpu_in_a_large_pci_domain_has_its_node(stub: NvmlStub) -> None:
    stub.set(0, pci="00010000:01:00.0", numa=1)
    node = stub.sysfs / "bus" / "pci" / "devices" / "10000:01:00.0" / "numa_node"
    node.parent.mkdir()
    node.write_text("1\n")
    assert (await read(stub)).gpus[0].numa == 1


async def test_values_that_a_gpu_does_not_support_are_absent(stub: NvmlStub) -> None:
    stub.set(0, compute_mode=None)
    stub.fail("nvmlDeviceGetMinorNumber", pynvml.NVML_ERROR_NOT_SUPPORTED)
    stub.fail("nvmlSystemGetCudaDriverVersion_v2", pynvml.NVML_ERROR_NOT_SUPPORTED)
    inventory = await read(stub)
    assert (inventory.gpus[0].minor, inventory.gpus[0].compute_mode, inventory.cuda) == (None, None, None)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        ("nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex: Unknown Error (999)"),
        ("nvmlDeviceGetUUID", "nvmlDeviceGetUUID: Unknown Error (999)"),
        ("nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetMemoryInfo: Unknown Error (999)"),
    ],
)
async def test_an_unreadable_gpu_is_reported_with_the_reason(
    stub: NvmlStub, function: str, reason: str
) -> None:
    stub.fail(function, pynvml.NVML_ERROR_UNKNOWN, card=1)
    inventory = await read(stub)
    assert [gpu.index for gpu in inventory.gpus] == [0, 2]
    assert inventory.unreadable == {1: reason}
    assert set(inventory.links) == {(0, 2)}


async def test_a_lost_gpu_is_reported_and_the_others_keep_their_index(stub: NvmlStub) -> None:
    stub.lose(0)
    inventory = await read(stub)
    assert inventory.unreadable == {0: "nvmlDeviceGetHandleByIndex: GPU is lost (15)"}
    assert [gpu.index for gpu in inventory.gpus] == [1, 2]


async def test_a_name_that_is_not_text_makes_the_gpu_unreadable(stub: NvmlStub) -> None:
    state = stub.folder / "state"
    state.write_bytes(state.read_bytes().replace(b"Tesla T4", b"Tesla \xff", 1))
    assert (await read(stub)).unreadable == {0: "nvmlDeviceGetName: returned b'Tesla \\xff' (999)"}


async def test_a_driver_without_gpus_has_an_empty_list(stub: NvmlStub) -> None:
    stub.cards([])
    inventory = await read(stub)
    assert (inventory.gpus, inventory.unreadable) == ((), {})
    assert inventory.driver == "535.161.08"


@pytest.mark.parametrize(
    ("level", "link"),
    [
        ("internal", Link.BOARD),
        ("single", Link.SWITCH),
        ("multiple", Link.SWITCHES),
        ("hostbridge", Link.HOST_BRIDGE),
        ("node", Link.NUMA_NODE),
        ("system", Link.SYSTEM),
    ],
)
async def test_the_distance_of_gpus_is_that_of_nvml(level: str, link: Link, driver: MakeDriver) -> None:
    pairs = [Pair((0, 1), level)]  # type: ignore[arg-type]
    stub = driver(cards=[card("T4")] * 2, pairs=pairs)
    assert (await read(stub)).links == {(0, 1): link}


@pytest.mark.parametrize("era", ERAS)
async def test_nvlink_beats_the_bus_and_needs_a_link_between_the_two(era: int, driver: MakeDriver) -> None:
    pairs = [Pair((0, 1), "single", nvlinks=2), Pair((1, 2), "single", nvlinks=1)]
    stub = driver(era=era, cards=[card("V100")] * 3, pairs=pairs)
    assert (await read(stub)).links == {
        (0, 1): Link.NVLINK,
        (0, 2): Link.NUMA_NODE,
        (1, 2): Link.NVLINK,
    }


async def test_gpus_on_an_nvswitch_reach_each_other_by_nvlink(driver: MakeDriver) -> None:
    cards = [card("H100", switch_links=18), card("H100", switch_links=18, numa=1), card("H100")]
    links = (await read(driver(cards=cards))).links
    assert links == {(0, 1): Link.NVLINK, (0, 2): Link.NUMA_NODE, (1, 2): Link.SYSTEM}


async def test_a_driver_without_topology_reports_no_links(stub: NvmlStub) -> None:
    stub.fail("nvmlDeviceGetTopologyCommonAncestor", pynvml.NVML_ERROR_NOT_SUPPORTED)
    assert (await read(stub)).links == {}


# --- compute modes ------------------------------------------------------------------------------


async def test_a_gpu_can_be_exclusive_to_one_process_and_shared_again(stub: NvmlStub) -> None:
    async with Nvml(sysfs=stub.sysfs) as gpus:
        await gpus.set_exclusive(stub.uuid(1), exclusive=True)
        modes = [gpu.compute_mode for gpu in (await gpus.inventory()).gpus]
        assert modes == ["Default", "Exclusive_Process", "Default"]
        await gpus.set_exclusive(stub.uuid(1), exclusive=False)
        assert (await gpus.inventory()).gpus[1].compute_mode == "Default"


async def test_a_compute_mode_that_is_already_set_needs_no_permission(stub: NvmlStub) -> None:
    stub.set(0, compute_mode=pynvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS)
    stub.fail("nvmlDeviceSetComputeMode", pynvml.NVML_ERROR_NO_PERMISSION)
    async with Nvml(sysfs=stub.sysfs) as gpus:
        await gpus.set_exclusive(stub.uuid(0), exclusive=True)
        with pytest.raises(GpuError, match="nvmlDeviceSetComputeMode"):
            await gpus.set_exclusive(stub.uuid(0), exclusive=False)
