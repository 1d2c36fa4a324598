"""The library for arm64, with a cross compiler and an emulator: its programs are limited too."""

import shutil
import subprocess
from pathlib import Path

import pytest

from testbed.cuda import CudaStub
from tests.isolation.test_ways_in import compiled, exports, glibc_versions
from tests.support.fixtures.isolation import (
    LAUNCH_LIBRARY,
    LIBRARY,
    MIB,
    NATIVE,
    Container,
    build,
    card,
    needs_compiler,
    share,
)

COMPILER = "aarch64-linux-gnu-gcc"
EMULATOR = "qemu-aarch64"
ROOT = Path("/usr/aarch64-linux-gnu")

pytestmark = [needs_compiler, pytest.mark.needs("arm64-compiler")]


@pytest.fixture(scope="module")
def arm(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("arm64"), files, compiler=COMPILER)


def run(program: Path, *arguments: str, **env: str) -> str:
    """What a program of arm64 prints; the environment is its own, and not the emulator's."""
    given = [word for name, value in env.items() for word in ("-E", f"{name}={value}")]
    return subprocess.run(  # noqa: S603 - our own program
        [shutil.which(EMULATOR) or EMULATOR, "-L", str(ROOT), *given, str(program), *arguments],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout


@pytest.mark.parametrize("name", [LIBRARY, LAUNCH_LIBRARY])
def test_the_library_for_arm64_loads_where_glibc_is_2_17(arm: Path, name: str) -> None:
    assert glibc_versions(arm.with_name(name)) == {(2, 17)}


@pytest.mark.parametrize("name", [LIBRARY, LAUNCH_LIBRARY])
def test_it_exports_the_symbols_of_the_other_build(arm: Path, library: Path, name: str) -> None:
    assert exports(arm.with_name(name)) == exports(library.with_name(name))


@pytest.mark.needs("arm64-emulator")
def test_its_region_has_the_same_layout(tmp_path: Path) -> None:
    own, theirs = (
        compiled(tmp_path / compiler, "layout.c", f"-I{NATIVE}", compiler=compiler)
        for compiler in ("gcc", COMPILER)
    )
    assert run(theirs) == subprocess.check_output([own], text=True, timeout=60)  # noqa: S603 - just compiled


@pytest.mark.needs("arm64-emulator")
@pytest.mark.parametrize("name", [LIBRARY, LAUNCH_LIBRARY])
@pytest.mark.parametrize("way", ["dlsym", "dlvsym", "address", "address_v2"])
def test_a_program_of_arm64_is_limited(arm: Path, files: Path, tmp_path: Path, way: str, name: str) -> None:
    stub = CudaStub(tmp_path / "stub", cards=[card()], compiler=COMPILER)
    container = Container(files, arm.with_name(name), stub)
    container.limit(share(4, 15))
    client = compiled(tmp_path / "client", "client.c", "-ldl", compiler=COMPILER)
    env = {"LD_PRELOAD": str(container.library), **stub.env}
    assert run(client, way, "4301", "1000", **env) == "0\n0\n"
    assert run(client, way, "4302", "1000", **env) == "2\n0\n"
    assert stub.peak(0) == 4301 * MIB
    assert container.seen().cards[0].refusals == 1
