"""Which program runs: cache keys, the user's own binaries, and the Go that builds the rest."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from gpushare.errors import ConfigError
from testbed.programs import binaries
from testbed.programs.binaries import SOURCES, TOOLS, Tool
from testbed.programs.golang import minor_of


def program(folder: Path, name: str, mode: int = 0o755) -> Path:
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(mode)
    return path


def sources(folder: Path, tool: Tool) -> Path:
    shutil.copytree(SOURCES / tool.module, folder / tool.module)
    return folder


def test_the_cache_key_changes_with_the_module_and_only_then(tmp_path: Path) -> None:
    tool = TOOLS["kwok"]
    copy = sources(tmp_path, tool)
    before = binaries.cache_key(tool, copy)
    assert before == binaries.cache_key(tool)
    with (copy / tool.module / "go.sum").open("a") as stream:
        stream.write("\n")
    assert binaries.cache_key(tool, copy) != before


def test_the_cache_key_begins_with_the_version() -> None:
    assert binaries.cache_key(TOOLS["etcd"]).startswith("3.6.8-")


def test_tools_of_one_module_have_different_cache_keys() -> None:
    keys = {binaries.cache_key(tool) for tool in TOOLS.values()}
    assert len(keys) == len(TOOLS)


def test_what_a_tool_adds_to_the_environment_of_its_build_is_part_of_its_key() -> None:
    tool = TOOLS["nvidia-ctk"]
    assert tool.build_env["CGO_ENABLED"] == "1"
    assert binaries.cache_key(tool) != binaries.cache_key(replace(tool, env={}))


def test_kubernetes_programs_are_stamped_with_their_version() -> None:
    assert "gitVersion=v1.22.17 " in TOOLS["kube-scheduler-1.22"].ldflags
    assert TOOLS["etcd"].ldflags == "-s -w"


def test_a_cached_kwok_has_its_stages_beside_it() -> None:
    cached = binaries.cached(TOOLS["kwok"], Path("/cache"))
    assert cached.stages == cached.path.with_name("stages")


def test_an_unknown_tool_is_named_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="'kubeadm': use one of etcd, kube-apiserver"):
        binaries.tool("kubeadm")


def test_without_variables_nothing_is_the_users_own() -> None:
    assert binaries.own(TOOLS["etcd"], {}) is None


def test_a_variable_names_one_program(tmp_path: Path) -> None:
    path = program(tmp_path, "mine")
    installed = binaries.own(TOOLS["kube-scheduler-1.22"], {"TESTBED_KUBE_SCHEDULER_1_22": str(path)})
    assert installed is not None
    assert installed.path == path


@pytest.mark.parametrize("variable", ["TESTBED_ASSETS", "KUBEBUILDER_ASSETS"])
def test_an_assets_folder_gives_what_it_holds(tmp_path: Path, variable: str) -> None:
    path = program(tmp_path, "etcd")
    installed = binaries.own(TOOLS["etcd"], {variable: str(tmp_path)})
    assert installed is not None
    assert installed.path == path
    assert binaries.own(TOOLS["kube-scheduler"], {variable: str(tmp_path)}) is None


def test_a_variable_that_names_nothing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"TESTBED_ETCD names .*/none, which is not a file"):
        binaries.own(TOOLS["etcd"], {"TESTBED_ETCD": str(tmp_path / "none")})


def test_a_folder_variable_that_names_nothing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"TESTBED_ASSETS names .* not a folder"):
        binaries.own(TOOLS["etcd"], {"TESTBED_ASSETS": str(tmp_path / "none")})


def test_a_program_that_cannot_be_run_is_an_error(tmp_path: Path) -> None:
    path = program(tmp_path, "etcd", mode=0o644)
    with pytest.raises(ConfigError, match="is not executable: chmod"):
        binaries.own(TOOLS["etcd"], {"TESTBED_ETCD": str(path)})


def test_the_stages_of_an_own_kwok_are_named_or_beside_it(tmp_path: Path) -> None:
    variables = {"TESTBED_KWOK": str(program(tmp_path, "kwok"))}
    beside = binaries.own(TOOLS["kwok"], variables)
    named = binaries.own(TOOLS["kwok"], {**variables, "TESTBED_KWOK_STAGES": "/stages"})
    assert beside is not None
    assert named is not None
    assert (beside.stages, named.stages) == (tmp_path / "stages", Path("/stages"))


@pytest.mark.parametrize(
    ("name", "minor", "accepted"),
    [
        ("kube-apiserver", 25, False),
        ("kube-apiserver", 27, True),
        ("kube-scheduler-1.22", 26, True),
        ("kube-scheduler-1.22", 27, False),
    ],
)
def test_each_tool_accepts_the_go_versions_that_build_it(name: str, minor: int, *, accepted: bool) -> None:
    assert binaries.accepts(TOOLS[name], minor) is accepted


@pytest.mark.parametrize(("text", "minor"), [("go1.26.8", 26), ("go1.27rc1", 27), ("devel go1.28", None)])
def test_the_minor_version_of_go_is_read(text: str, minor: int | None) -> None:
    assert minor_of(text) == minor


def test_a_stamp_is_one_linker_flag() -> None:
    assert TOOLS["pulumi"].ldflags.endswith("/sdk/v3/go/common/version.Version=v3.259.0")


def test_a_tool_that_wants_files_of_another_module_has_a_key_of_both(tmp_path: Path) -> None:
    tool = TOOLS["pulumi-language-python"]
    assert tool.beside is not None
    assert tool.beside.module != tool.module
    sources(tmp_path, tool)
    sources(tmp_path, TOOLS["pulumi"])
    before = binaries.cache_key(tool, tmp_path)
    assert before == binaries.cache_key(tool)
    with (tmp_path / tool.beside.module / "go.sum").open("a") as stream:
        stream.write("\n")
    assert binaries.cache_key(tool, tmp_path) != before
