"""gpu-1 shares its GPUs again, gpu-2 allocates whole GPUs, in the API and on the hosts."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from kubernetes import client, config
from testinfra.host import Host

testinfra_hosts = ["ansible://gpu_nodes"]
MODES = {"gpu-1": "share", "gpu-2": "whole"}
NODES = {"gpu-1": "sim-0", "gpu-2": "sim-1"}
PLUGIN = "/etc/kubernetes/manifests/nvidia-device-plugin.yml"
BACKUP = "/etc/kubernetes/manifests-backup/nvidia-device-plugin.yml"


@pytest.fixture
def name(host: Host) -> str:
    return host.check_output("hostname")


@pytest.fixture
def node(name: str) -> client.V1Node:
    cache = Path(os.environ.get("GPUSHARE_CACHE", "~/.cache/gpushare")).expanduser()
    bed = f"molecule-{os.environ.get('GPUSHARE_HOSTS', 'hosts')}"
    config.load_kube_config(str(cache / "beds" / bed / "admin.kubeconfig"))
    return client.CoreV1Api().read_node(NODES[name])


def test_there_are_two_hosts(names_of: Callable[[str], list[str]]) -> None:
    assert names_of("gpu_nodes") == ["gpu-1", "gpu-2"]


def test_the_labels_have_the_mode(node: client.V1Node, name: str) -> None:
    shares = MODES[name] == "share"
    keys = ("gpushare", "cgpu", "ack.node.gpu.schedule", "ack.node.gpu.placement")
    value = "true" if shares else "false"
    expected = [value, value, "share" if shares else "default", "binpack"]
    assert [node.metadata.labels.get(key) for key in keys] == expected


def test_the_node_is_schedulable_and_has_its_taint(node: client.V1Node) -> None:
    assert not node.spec.unschedulable
    assert "gpushare.io/switching" not in (node.metadata.annotations or {})
    assert ("aliyun.com/gpu", "PreferNoSchedule") in [(each.key, each.effect) for each in node.spec.taints]


def test_the_manifest_is_in_the_folder_of_the_mode_with_its_comment_and_file_mode(
    host: Host, name: str
) -> None:
    here, there = (BACKUP, PLUGIN) if MODES[name] == "share" else (PLUGIN, BACKUP)
    assert host.file(here).content_string.startswith("# A comment that stays.\n")
    assert host.file(here).mode == 0o600
    assert not host.file(there).exists
    assert [host.file(Path(each).parent.as_posix()).mode for each in (PLUGIN, BACKUP)] == [0o700, 0o700]
