import re
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.nvml.eras import ERAS
from tests.isolation.conftest import Make
from tests.support.fixtures.isolation import (
    LAUNCH_LIBRARY,
    LIBRARY,
    PRELUDE,
    Container,
    needs_compiler,
)

pytestmark = needs_compiler
NATIVE = Path(__file__).parent / "native"


def compiled(target: Path, source: str, *flags: str, compiler: str = "gcc") -> Path:
    command = [compiler, "-Wall", "-Werror", "-o", str(target), str(NATIVE / source), *flags]
    subprocess.run(command, check=True, timeout=60)  # noqa: S603 - the compiler that PATH has
    return target


@pytest.mark.parametrize("way", ["dlsym", "dlvsym", "address", "address_v2"])
def test_a_program_that_loads_the_driver_is_limited(container: Container, tmp_path: Path, way: str) -> None:
    client = compiled(tmp_path / "client", "client.c", "-ldl")
    assert container.run([str(client), way, "4301"]).stdout == "0\n"
    assert container.run([str(client), way, "4302"]).stdout == "2\n"


@pytest.mark.parametrize("way", ["direct", "next", "dlsym"])
def test_a_program_linked_to_the_driver_is_limited(container: Container, tmp_path: Path, way: str) -> None:
    client = compiled(tmp_path / "client", "client.c", "-DLINKED", "-ldl", str(container.stub.library))
    assert container.run([str(client), way, "4301"]).stdout == "0\n"
    assert container.run([str(client), way, "4302"]).stdout == "2\n"


@pytest.mark.parametrize("first", [True, False])
def test_another_interposer_sees_each_call_once(container: Container, tmp_path: Path, *, first: bool) -> None:
    client = compiled(tmp_path / "client", "client.c", "-DLINKED", "-ldl", str(container.stub.library))
    other = compiled(tmp_path / "libother.so", "interposer.c", "-shared", "-fPIC", "-ldl")
    ours = str(container.library)
    preload = f"{other}:{ours}" if first else f"{ours}:{other}"
    assert container.run([str(client), "direct", "4301"], LD_PRELOAD=preload).stdout == "seen 0\n"
    refused = "seen 2\n" if first else "2\n"
    assert container.run([str(client), "direct", "4302"], LD_PRELOAD=preload).stdout == refused


@pytest.mark.parametrize(
    "variable",
    [{"LD_BIND_NOT": "1"}, {"LD_DYNAMIC_WEAK": "1"}, {"GLIBC_TUNABLES": "glibc.rtld.dynamic_sort=1"}],
    ids=str,
)
def test_variables_of_the_loader_change_no_limit(
    container: Container, tmp_path: Path, variable: dict[str, str]
) -> None:
    client = compiled(tmp_path / "client", "client.c", "-DLINKED", "-ldl", str(container.stub.library))
    assert container.run([str(client), "direct", "4302"], **variable).stdout == "2\n"


def test_a_program_that_preloads_the_driver_bypasses_the_library(
    container: Container, tmp_path: Path
) -> None:
    """Therefore the node agent rejects containers that do (``gpushare.model.conflicts``)."""
    client = compiled(tmp_path / "client", "client.c", "-DLINKED", "-ldl", str(container.stub.library))
    preload = f"{container.stub.library}:{container.library}"
    assert container.run([str(client), "direct", "4302"], LD_PRELOAD=preload).stdout == "0\n"


@pytest.mark.parametrize("flags", [(), ("-DBY_ADDRESS",)])
def test_a_library_that_passes_calls_on_to_the_driver_is_limited(
    container: Container, tmp_path: Path, flags: tuple[str, ...]
) -> None:
    shim = compiled(tmp_path / "libshim.so", "shim.c", "-shared", "-fPIC", "-ldl", *flags)
    client = compiled(tmp_path / "client", "client.c", "-DLINKED", "-ldl", str(shim))
    for mib, verdict in (4301, 0), (4302, 2):
        done = container.run([str(client), "direct", str(mib)])
        assert (done.returncode, done.stdout) == (0, f"{verdict}\n")
    assert container.seen().cards[0].peak == 4301 << 20


@pytest.mark.parametrize("name", ["cuMemAlloc_v2", "nvmlDeviceGetMemoryInfo"])
def test_without_the_driver_a_lookup_is_an_error(make: Make, name: str) -> None:
    # Python reads the text of the error.
    code = f"import ctypes; print(hasattr(ctypes.CDLL(None), {name!r}))"
    done = make().run([sys.executable, "-S", "-c", code])
    assert (done.returncode, done.stdout) == (0, "False\n")


@pytest.mark.parametrize("era", ERAS)
def test_a_lookup_finds_only_functions_of_the_driver(make: Make, era: int) -> None:
    names = "cuMemAlloc_v2 cuMemCreate cuMemAllocAsync cuGetProcAddress cuGetProcAddress_v2 cuCtxCreate_v4"
    code = f"{PRELUDE}say([hasattr(cuda, n) for n in {names.split()}])"
    container = make(era=era)
    alone = {"LD_PRELOAD": ""}
    assert container.python(code).stdout == container.python(code, alone).stdout


def test_the_status_of_an_unknown_name_is_the_drivers(container: Container) -> None:
    code = """
at, status = c.c_void_p(), c.c_int(-1)
for name in (b"cuMemCreate", b"cuNothing", b"cuMemAlloc", b"cuInit"):
    say(cuda.cuGetProcAddress_v2(name, c.byref(at), 13000, c.c_uint64(0), c.byref(status)), status.value)
"""
    assert container.python(code).stdout == container.python(code, {"LD_PRELOAD": ""}).stdout


@pytest.mark.parametrize("era", [era for era, facts in ERAS.items() if facts.cuda >= 11030])
def test_a_lookup_by_name_finds_only_functions_of_the_driver(make: Make, era: int) -> None:
    container = make(era=era)
    code = """
names = b"cuMemAlloc cuMemFree cuMemCreate cuMemAllocAsync cuCtxCreate cuMemRetainAllocationHandle cuNothing"
names += b" cuGraphAddNode cuGraphUpload"
at = c.c_void_p()
for name in names.split():
    for version in 2000, 10000, 11020, 12020, 12050, 13000:
        for flags in 0, 2:
            v = cuda.cuGetProcAddress(name, c.byref(at), version, c.c_uint64(flags)); say(v, bool(at.value))
"""
    assert container.python(code).stdout == container.python(code, {"LD_PRELOAD": ""}).stdout


def test_per_thread_streams_have_their_own_function(container: Container) -> None:
    code = """
at = c.c_void_p()
for flags in (0, 2):
    cuda.cuGetProcAddress(b"cuMemAllocAsync", c.byref(at), 12000, c.c_uint64(flags))
    name = "cuMemAllocAsync_ptsz" if flags else "cuMemAllocAsync"
    say(at.value == c.cast(getattr(cuda, name), c.c_void_p).value)
"""
    assert container.python(code).stdout == "[true]\n[true]\n"


def test_a_version_of_a_function_has_its_own_wrapper(container: Container) -> None:
    code = """
at = c.c_void_p()
for version, name in (12020, "cuGraphAddNode"), (12030, "cuGraphAddNode_v2"):
    cuda.cuGetProcAddress(b"cuGraphAddNode", c.byref(at), version, c.c_uint64(0))
    say(at.value == c.cast(getattr(cuda, name), c.c_void_p).value)
"""
    assert container.python(code).stdout == "[true]\n[true]\n"


def exports(library: Path) -> set[str]:
    listed = subprocess.run(  # noqa: S603 - a tool that PATH has
        ["nm", "-D", "--defined-only", str(library)],  # noqa: S607
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout
    return {line.split()[-1] for line in listed.splitlines()}


def test_the_build_without_launch_control_exports_no_launches(library: Path) -> None:
    names = exports(library)
    assert {"dlsym", "dlvsym", "cuMemAlloc_v2", "nvmlDeviceGetMemoryInfo"} <= names
    assert all(name.startswith(("cu", "nvml")) or name in ("dlsym", "dlvsym") for name in names)
    assert not [name for name in names if name.startswith("cuLaunch")]


def glibc_versions(library: Path) -> set[tuple[int, ...]]:
    """The versions of glibc that a library asks for."""
    needs = subprocess.run(  # noqa: S603 - a tool that PATH has
        ["objdump", "-T", str(library)],  # noqa: S607
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout
    return {tuple(map(int, found.split("."))) for found in re.findall(r"GLIBC_([\d.]+)", needs)}


@pytest.mark.parametrize("name", [LIBRARY, LAUNCH_LIBRARY])
def test_the_library_loads_where_glibc_is_2_17(library: Path, name: str) -> None:
    versions = glibc_versions(library.with_name(name))
    assert versions
    assert max(versions) <= (2, 17)


def test_a_program_without_cuda_opens_nothing(container: Container) -> None:
    done = container.run(["/bin/sh", "-c", "cat /proc/self/maps; ls -l /proc/self/fd"])
    assert done.returncode == 0
    assert "libgpushare.so" in done.stdout
    assert str(container.folder) not in done.stdout
    assert done.stderr == ""


def test_a_driver_that_is_loaded_again_is_still_limited(container: Container) -> None:
    code = """
import _ctypes
context(); say(alloc(1000)[0]); _ctypes.dlclose(cuda._handle)
say("libcuda.so.1" in open("/proc/self/maps").read())
cuda = c.CDLL("libcuda.so.1"); say(alloc(3000)[0], alloc(1000)[0])
"""
    assert container.python(code).stdout == "[0]\n[true]\n[0, 2]\n"
