"""Cache keys of tools, binaries of the user that replace them, and suitable Go versions."""

import shutil
from pathlib import Path

import pytest

from gpushare.errors import ConfigError
from testbed.programs import binaries
from testbed.programs.binaries import SOURCES, TOOLS, Tool


def program(folder: Path, name: str, mode: int = 0o755) -> Path:
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(mode)
    return path


def sources(folder: Path, tool: Tool) -> Path:
    shutil.copytree(SOURCES / tool.module, folder / tool.module)
    return folder


def test_tools_of_one_module_have_different_cache_keys() -> None:
    keys = {binaries.cache_key(tool) for tool in TOOLS.values()}
    assert len(keys) == len(TOOLS)


@pytest.mark.parametrize(
    ("name", "env", "expected"),
    [
        ("kubelet", {}, "1.36.3"),
        ("kubelet", {"TESTBED_KUBERNETES": ""}, "1.36.3"),
        ("kubelet", {"TESTBED_KUBERNETES": "1.37"}, "1.37.2"),
        ("etcd", {"TESTBED_KUBERNETES": "1.37"}, "3.7.0"),
        ("containerd", {"TESTBED_KUBERNETES": "1.37"}, "2.2.9"),
        ("kube-scheduler-1.22", {"TESTBED_KUBERNETES": "1.37"}, "1.22.17"),
        ("kubelet-1.37", {}, "1.37.2"),
    ],
)
def test_a_variable_selects_the_release_of_kubernetes(name: str, env: dict[str, str], expected: str) -> None:
    assert binaries.tool(name, env).version == expected


def test_each_release_has_the_same_programs() -> None:
    programs = {
        release: {
            name for name in TOOLS if binaries.tool(name, {"TESTBED_KUBERNETES": release}).module == module
        }
        for release, module in (("1.36", "kubernetes"), ("1.37", "kubernetes-1.37"))
    }
    assert {f"{name}-1.37" for name in programs["1.36"]} | programs["1.36"] == programs["1.37"]


@pytest.mark.parametrize("release", ["1.36", "1.37"])
def test_all_tools_are_those_of_one_release(release: str) -> None:
    found = [binaries.tool(name, {"TESTBED_KUBERNETES": release}) for name in binaries.names()]
    assert len({each.name for each in found}) == len(found)
    assert {each.version for each in found if each.package.startswith("k8s.io/kubernetes/")} == {
        "1.22.17",
        "1.36.3" if release == "1.36" else "1.37.2",
    }


def test_an_unknown_release_is_an_error_that_names_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"TESTBED_KUBERNETES='1\.99' is unknown: use one of 1\.36, 1\.37"):
        binaries.release({"TESTBED_KUBERNETES": "1.99"})


def test_programs_in_an_assets_folder_are_used(tmp_path: Path) -> None:
    env = {"KUBEBUILDER_ASSETS": str(tmp_path)}
    path = program(tmp_path, "etcd")
    installed = binaries.own(TOOLS["etcd"], env)
    assert installed is not None
    assert installed.path == path
    assert binaries.own(TOOLS["kube-scheduler"], env) is None


def test_a_variable_without_a_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"TESTBED_ETCD names .*/none, which is not a file"):
        binaries.own(TOOLS["etcd"], {"TESTBED_ETCD": str(tmp_path / "none")})


def test_a_file_that_is_not_executable_is_an_error(tmp_path: Path) -> None:
    path = program(tmp_path, "etcd", mode=0o644)
    with pytest.raises(ConfigError, match="is not executable: chmod"):
        binaries.own(TOOLS["etcd"], {"TESTBED_ETCD": str(path)})


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


def test_the_cache_key_changes_with_each_module_of_a_tool(tmp_path: Path) -> None:
    tool = TOOLS["pulumi-language-python"]
    assert tool.beside is not None
    assert tool.beside.module != tool.module
    sources(tmp_path, tool)
    sources(tmp_path, TOOLS["pulumi"])
    before = binaries.cache_key(tool, tmp_path)
    assert before == binaries.cache_key(tool)
    keys = {before}
    for module in (tool.module, tool.beside.module):
        with (tmp_path / module / "go.sum").open("a") as stream:
            stream.write("\n")
        keys.add(binaries.cache_key(tool, tmp_path))
    assert len(keys) == 3
