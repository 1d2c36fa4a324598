"""Where programs of Debian packages are found."""

from pathlib import Path

import pytest

from testbed import DevkitError
from testbed.programs.debian import program, static_busybox


def made(folder: Path, name: str = "promtool") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_the_order_is_variable_path_unpacked_package(tmp_path: Path) -> None:
    own, on_path = made(tmp_path / "own"), made(tmp_path / "path")
    unpacked = made(tmp_path / "cache" / "prometheus" / "usr" / "bin")
    env = {"TESTBED_PROMTOOL": str(own), "PATH": str(on_path.parent), "GPUSHARE_CACHE": f"{tmp_path}/cache"}
    for expected, variable in ((own, "TESTBED_PROMTOOL"), (on_path, "PATH")):
        assert program("promtool", env) == expected
        env[variable] = ""
    assert program("promtool", env) == unpacked


def test_a_missing_program_is_reported_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(
        DevkitError, match=r"prometheus is missing: run \.ci/packages all .* or set TESTBED_PROM"
    ):
        program("prometheus", {"PATH": str(tmp_path), "GPUSHARE_CACHE": str(tmp_path)})


@pytest.mark.parametrize("folder", ["bin", "usr/bin"])
def test_the_unpacked_busybox_replaces_one_that_needs_libraries(tmp_path: Path, folder: str) -> None:
    on_path = made(tmp_path / "path", "busybox")
    env = {"PATH": str(on_path.parent), "GPUSHARE_CACHE": f"{tmp_path}/cache"}
    assert static_busybox(env) == on_path
    on_path.write_text("/lib64/ld-linux-x86-64.so.2")
    assert static_busybox(env) is None
    unpacked = made(tmp_path / "cache" / "busybox-static" / folder, "busybox")
    assert static_busybox(env) == unpacked
    assert program("busybox", env) == on_path
