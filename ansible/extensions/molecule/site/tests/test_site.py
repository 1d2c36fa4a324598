"""The hosts of a small cluster after playbook site."""

import json
from collections.abc import Callable

import pytest
from testinfra.host import Host

testinfra_hosts = ["ansible://all"]


@pytest.fixture
def is_gpu_node(host: Host, names_of: Callable[[str], list[str]]) -> bool:
    return host.check_output("hostname") in names_of("gpu_nodes")


def test_there_are_a_control_plane_and_two_gpu_nodes(names_of: Callable[[str], list[str]]) -> None:
    assert names_of("kube_control_plane") == ["cp-1"]
    assert names_of("gpu_nodes") == ["gpu-1", "gpu-2"]


def test_gpu_nodes_have_driver_and_toolkit_and_the_control_plane_has_neither(
    host: Host, *, is_gpu_node: bool
) -> None:
    for name in ("nvidia-driver-cuda", "nvidia-container-toolkit", "containerd.io"):
        assert host.package(name).is_installed is is_gpu_node, name


def test_services_of_gpu_nodes_run(host: Host, *, is_gpu_node: bool) -> None:
    for name in ("nvidia-persistenced", "containerd"):
        assert host.service(name).is_running is is_gpu_node, name


def test_only_the_control_plane_has_the_scheduler_configuration(host: Host, *, is_gpu_node: bool) -> None:
    file = host.file("/etc/kubernetes/gpushare/second-scheduler-config.json")
    assert file.exists is not is_gpu_node
    if not is_gpu_node:
        assert json.loads(file.content_string)["extenders"]
