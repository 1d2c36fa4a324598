"""Which program runs."""

from pathlib import Path

import pytest

from gpushare.errors import ConfigError
from testbed import TestbedError
from testbed.programs.debian import program, static_busybox


def made(folder: Path, name: str = "promtool") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_the_users_own_comes_first_then_that_of_the_path_then_the_unpacked(tmp_path: Path) -> None:
    own, on_path = made(tmp_path / "own"), made(tmp_path / "path")
    unpacked = made(tmp_path / "cache" / "prometheus" / "usr" / "bin")
    env = {"TESTBED_PROMTOOL": str(own), "PATH": str(on_path.parent), "GPUSHARE_CACHE": f"{tmp_path}/cache"}
    for expected, variable in ((own, "TESTBED_PROMTOOL"), (on_path, "PATH")):
        assert program("promtool", env) == expected
        env[variable] = ""
    assert program("promtool", env) == unpacked


def test_without_any_the_way_out_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        TestbedError, match=r"prometheus is missing: run \.ci/packages test .* or set TESTBED_PROM"
    ):
        program("prometheus", {"PATH": str(tmp_path), "GPUSHARE_CACHE": str(tmp_path)})


def test_a_variable_that_names_no_program_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="TESTBED_PROMETHEUS names"):
        program("prometheus", {"TESTBED_PROMETHEUS": str(tmp_path / "none")})


@pytest.mark.parametrize("folder", ["bin", "usr/bin"])
def test_a_busybox_that_needs_libraries_gives_way_to_the_unpacked_one(tmp_path: Path, folder: str) -> None:
    on_path = made(tmp_path / "path", "busybox")
    env = {"PATH": str(on_path.parent), "GPUSHARE_CACHE": f"{tmp_path}/cache"}
    assert static_busybox(env) == on_path
    on_path.write_text("/lib64/ld-linux-x86-64.so.2")
    assert static_busybox(env) is None
    unpacked = made(tmp_path / "cache" / "busybox-static" / folder, "busybox")
    assert static_busybox(env) == unpacked
    assert program("busybox", env) == on_path
