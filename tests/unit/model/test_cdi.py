"""CDI specifications as the library of CDI reads them, and what NVIDIA's tools write."""

import json

import pytest

from gpushare.errors import InvalidRequest
from gpushare.model.cdi import CdiSpec, clashes, devices_of, parse_spec
from tests.support.builders.cdi_files import OF_PLUGIN, OF_TOOLKIT


def of_file(path: str, *names: str, priority: int = 0) -> CdiSpec:
    return CdiSpec(path, priority, "0.5.0", "nvidia.com/gpu", frozenset(names))


def test_the_file_of_the_toolkit_names_each_gpu_by_index_and_uuid() -> None:
    found = parse_spec("/var/run/cdi/nvidia.yaml", 1, OF_TOOLKIT)
    assert (found.kind, found.version, found.priority) == ("nvidia.com/gpu", "0.5.0", 1)
    assert found.names == {"0", "GPU-a", "all"}
    assert found.hides_variable


def test_the_file_of_nvidias_plugin_has_its_own_kind() -> None:
    found = parse_spec("/var/run/cdi/k8s.device-plugin.nvidia.com-gpu.json", 1, OF_PLUGIN)
    assert (found.kind, set(found.names)) == ("k8s.device-plugin.nvidia.com/gpu", {"GPU-a"})
    assert found.hides_variable


@pytest.mark.parametrize(
    ("edits", "of_devices", "hides"),
    [
        ({}, {}, False),
        ({"env": ["A=b"]}, {}, False),
        ({"env": ["NVIDIA_VISIBLE_DEVICES=all"]}, {}, False),
        ({"env": ["NVIDIA_VISIBLE_DEVICES=void", "NVIDIA_VISIBLE_DEVICES=all"]}, {}, False),
        ({"env": None}, {"env": ["NVIDIA_VISIBLE_DEVICES=void"]}, True),
    ],
)
def test_a_file_that_leaves_the_variable_to_the_pod_is_known(
    edits: object, of_devices: object, *, hides: bool
) -> None:
    devices = [{"name": "GPU-a", "containerEdits": of_devices}]
    text = json.dumps({"cdiVersion": "0.5.0", "kind": "k/k", "devices": devices, "containerEdits": edits})
    assert parse_spec("a.json", 0, text).hides_variable is hides


@pytest.mark.parametrize(
    "text", ["", "[]", "{", "kind: nvidia.com/gpu", "cdiVersion: 0.5.0\nkind: a/b\ndevices: 3"]
)
@pytest.mark.parametrize("suffix", ["json", "yaml"])
def test_anything_else_is_no_specification(text: str, suffix: str) -> None:
    with pytest.raises(InvalidRequest, match="/etc/cdi/x"):
        parse_spec(f"/etc/cdi/x.{suffix}", 0, text)


@pytest.mark.parametrize(
    ("version", "newest", "read"),
    [
        ("0.5.0", "0.5.0", True),
        ("0.6.0", "0.5.0", False),
        ("1.1.0", "1.0.0", False),
        ("0.5.1", "1.1.0", False),
    ],
)
def test_a_runtime_reads_the_versions_that_it_knows(version: str, newest: str, *, read: bool) -> None:
    assert CdiSpec("a", 0, version, "k/k", frozenset()).is_readable(newest) is read


def test_of_two_folders_the_later_one_counts() -> None:
    old, new = of_file("/etc/cdi/a.yaml", "GPU-a", "GPU-b"), of_file("/run/cdi/a.yaml", "GPU-a", priority=1)
    assert devices_of([new, old], "nvidia.com/gpu") == {"GPU-a": new, "GPU-b": old}
    assert clashes([new, old], "nvidia.com/gpu") == {}


def test_two_files_of_one_folder_take_a_device_from_each_other() -> None:
    one, other = of_file("a.yaml", "GPU-a", "GPU-b"), of_file("b.yaml", "GPU-a")
    assert devices_of([one, other], "nvidia.com/gpu") == {"GPU-b": one}
    assert clashes([one, other], "nvidia.com/gpu") == {"GPU-a": ("a.yaml", "b.yaml")}
