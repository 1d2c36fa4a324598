import json
import sys
from typing import Any

import pytest

from testbed.nvml import GpuProcess, NvmlStub, card
from testbed.nvml.eras import ERAS, functions
from tests.isolation.conftest import Make
from tests.isolation.test_pools import GRAPHS, RUNS
from tests.support.fixtures.isolation import MIB, PRELUDE, ROOT, UUID, Container, needs_compiler, share

pytestmark = needs_compiler

SMI = """
import json, pynvml
pynvml.nvmlInit()
device = pynvml.nvmlDeviceGetHandleByIndex(0)
memory = pynvml.nvmlDeviceGetMemoryInfo(device)
print(json.dumps([memory.used >> 20, memory.total >> 20, memory.free >> 20]))
"""

# What each function that lists processes answers, and how many it says there are.
LISTS = """
import ctypes as c, json
nvml = c.CDLL("libnvidia-ml.so.1")
nvml.nvmlInit_v2()
device = c.c_void_p()
nvml.nvmlDeviceGetHandleByIndex_v2(0, c.byref(device))
found = []
for name in {names}:
    count = c.c_uint(64)
    verdict = getattr(nvml, name)(device, c.byref(count), c.create_string_buffer(64 * 32))
    found.append([verdict, count.value])
print(json.dumps(found))
"""

# The list of driver 535 and later: without room, with room, with an invalid handle, version and list.
DETAILS = """
import ctypes as c, json
class List(c.Structure):
    _fields_ = [(n, c.c_uint) for n in ("version", "mode", "count")] + [("processes", c.c_void_p)]
nvml = c.CDLL("libnvidia-ml.so.1")
nvml.nvmlInit_v2()
gpu, none = c.c_void_p(), c.c_void_p()
nvml.nvmlDeviceGetHandleByIndex_v2(0, c.byref(gpu))
room = c.create_string_buffer(8 * 40)
found = []
first = 0x1000018
for device, version, count in (gpu, first, 0), (gpu, first, 8), (none, first, 8), (gpu, 2, 8), (gpu, 0, -1):
    asked = List(version, 0, count, c.addressof(room) if count > 0 else None)
    given = c.byref(asked) if count >= 0 else None
    verdict = nvml.nvmlDeviceGetRunningProcessDetailList(device, given)
    found.append([verdict, asked.count if given else -1, asked.processes == c.addressof(room)])
print(json.dumps(found))
"""


def smi(container: Container, nvml: NvmlStub, code: str = SMI) -> Any:
    folders = {"LD_LIBRARY_PATH": f"{nvml.env['LD_LIBRARY_PATH']}:{container.env['LD_LIBRARY_PATH']}"}
    done = container.run([sys.executable, "-c", code], STUB_NVML=nvml.env["STUB_NVML"], **folders)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("era", ERAS)
def test_nvml_shows_the_container_its_share(make: Make, era: int) -> None:
    container = make(context_mib=121)
    nvml = NvmlStub(container.folder / f"nvml-{era}", era=era, cards=[card("V100", uuid=UUID)])
    assert smi(container, nvml) == [0, 4301, 4301]
    with container.start("context(); alloc(3072); say(0); sys.stdin.read()") as app:
        app.stdout.readline()
        assert smi(container, nvml) == [3193, 4301, 1108]
        app.communicate("")


# The picture of the ACK documentation (drivers up to 440), with the title of the look-alike.
PICTURE = """\
+-----------------------------------------------------------------------------+
| SAMPLE-SMI 418.87.01    Driver Version: 418.87.01    CUDA Version: 10.1     |
|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |
|===============================+======================+======================|
|   0  Tesla V100-SXM2...  On   | 00000000:00:07.0 Off |                    0 |
| N/A   37C    P0    57W / 300W |   3193MiB /  4301MiB |      0%      Default |
+-------------------------------+----------------------+----------------------+

+-----------------------------------------------------------------------------+
| Processes:                                                       GPU Memory |
|  GPU       PID   Type   Process name                             Usage      |
|=============================================================================|
+-----------------------------------------------------------------------------+
"""


def look_alike(container: Container, nvml: NvmlStub, *words: str) -> str:
    """What it prints."""
    folders = {"LD_LIBRARY_PATH": f"{nvml.env['LD_LIBRARY_PATH']}:{container.env['LD_LIBRARY_PATH']}"}
    env = {"STUB_NVML": nvml.env["STUB_NVML"], "PYTHONPATH": str(ROOT), **folders}
    done = container.run([sys.executable, str(ROOT / "samples" / "last" / "nvidia-smi"), *words], **env)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_look_alike_of_nvidia_smi_shows_the_picture_of_the_ack_documentation(make: Make) -> None:
    container = make(context_mib=121)
    seen = {"pci": "00000000:00:07.0", "temperature": 37, "power_mw": 57_000, "power_limit_mw": 300_000}
    v100 = card("V100", uuid=UUID, name="Tesla V100-SXM2-16GB", **seen)
    nvml = NvmlStub(container.folder / "nvml-picture", era=418, cards=[v100], driver="418.87.01")
    with container.start("context(); alloc(3072); say(0); sys.stdin.read()") as app:
        app.stdout.readline()
        assert look_alike(container, nvml).partition("\n")[2] == PICTURE
        app.communicate("")


@pytest.mark.parametrize("era", ERAS)
def test_the_look_alike_prints_its_table_with_each_driver(container: Container, era: int) -> None:
    nvml = NvmlStub(container.folder / f"nvml-look-{era}", era=era, cards=[card("T4", uuid=UUID)])
    _, *lines = look_alike(container, nvml).splitlines()
    assert {len(line) for line in lines if line} == {79}
    assert "|      0MiB /  4301MiB |" in lines[7]
    assert look_alike(container, nvml, "-L") == f"GPU 0: Tesla T4 (UUID: {UUID})\n"


@pytest.mark.parametrize("era", ERAS)
def test_nvml_shows_the_container_no_process_of_the_host(container: Container, era: int) -> None:
    busy = (GpuProcess(pid=1, used_mib=3193), GpuProcess(pid=2, used_mib=5000, kind="graphics"))
    nvml = NvmlStub(
        container.folder / f"nvml-busy-{era}", era=era, cards=[card("V100", uuid=UUID, processes=busy)]
    )
    names = sorted(name for name in functions(era) if "RunningProcesses" in name)
    assert smi(container, nvml, LISTS.format(names=names)) == [[0, 0]] * len(names)


def test_the_list_of_process_details_is_empty_too(container: Container) -> None:
    busy = (GpuProcess(pid=4711, used_mib=1024),)
    nvml = NvmlStub(container.folder / "nvml-details", cards=[card("V100", uuid=UUID, processes=busy)])

    def answers(preload: str) -> Any:
        env = {"LD_PRELOAD": preload, "LD_LIBRARY_PATH": nvml.env["LD_LIBRARY_PATH"]}
        done = container.run([sys.executable, "-S", "-c", DETAILS], STUB_NVML=nvml.env["STUB_NVML"], **env)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    assert answers("") == [[7, 1, False], [0, 1, True], [2, 8, True], [25, 8, True], [2, -1, False]]
    ours = answers(str(container.library))
    assert ours == [[0, 0, False], [0, 0, True], [2, 0, True], [25, 0, True], [2, -1, False]]


def test_the_second_version_shows_the_same_and_no_reserve(container: Container) -> None:
    container.limit(share(4, 14, card_mib=15079))
    nvml = NvmlStub(container.folder / "nvml-v2", cards=[card("T4", uuid=UUID)])
    code = SMI.replace(
        "nvmlDeviceGetMemoryInfo(device)", "nvmlDeviceGetMemoryInfo(device, pynvml.nvmlMemory_v2)"
    )
    code = code.replace("memory.used >> 20", "memory.reserved")
    assert smi(container, nvml, code) == [0, 4308, 4308]


@pytest.mark.parametrize("run", RUNS)
def test_nvml_shows_memory_of_graphs_as_soon_as_it_is_used(container: Container, run: str) -> None:
    nvml = NvmlStub(container.folder / "nvml-graphs", cards=[card("V100", uuid=UUID)])
    code = f"{PRELUDE}{GRAPHS}node(1000), {run}\n{SMI}"
    assert smi(container, nvml, code) == [1000, 4301, 3301]


def test_without_a_valid_limit_nvml_shows_no_memory(container: Container) -> None:
    container.write_limit("")
    nvml = NvmlStub(container.folder / "nvml-none", cards=[card("V100", uuid=UUID)])
    code = SMI.replace("memory = ", "try: memory = ").split("print")[0]
    code += "except pynvml.NVMLError as error: print(error.value)"
    assert smi(container, nvml, code) == 999


def test_a_process_that_uses_only_nvml_takes_no_slot(container: Container) -> None:
    nvml = NvmlStub(container.folder / "nvml-slot", cards=[card("V100", uuid=UUID)])
    smi(container, nvml)
    assert container.seen().processes == ()
    assert container.seen().cards[0].limit == 4301 * MIB
