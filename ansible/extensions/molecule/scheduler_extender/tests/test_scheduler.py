"""Each control plane has the configuration of its version; see also side_effect.yml."""

import json
from collections.abc import Callable

import pytest
from testinfra.host import Host

HOSTS = ["cp-1", "gpu-1"]
testinfra_hosts = [f"ansible://{name}" for name in HOSTS]
MANIFEST = "/etc/kubernetes/manifests/kube-scheduler.yaml"
BACKUP = "/etc/kubernetes/manifests-backup/kube-scheduler.ori.yaml"
FILES = {
    "cp-1": ("--config", "/etc/kubernetes/gpushare/scheduler-config.json"),
    "gpu-1": ("--policy-config-file", "/etc/kubernetes/scheduler-policy-config.json"),
}


@pytest.fixture
def name(host: Host) -> str:
    return host.check_output("hostname")


def test_there_is_one_control_plane_in_the_inventory_and_another_host(
    names_of: Callable[[str], list[str]],
) -> None:
    assert names_of("kube_control_plane") == ["cp-1"]
    assert "gpu-1" in names_of("gpu_nodes")


def test_the_scheduler_runs_with_the_configuration_of_its_version(host: Host, name: str) -> None:
    flag, file = FILES[name]
    assert f"{flag}={file}" in host.check_output("pgrep -ax kube-scheduler")
    document = json.loads(host.file(file).content_string)
    assert document["kind"] == ("Policy" if name == "gpu-1" else "KubeSchedulerConfiguration")
    address = host.check_output("hostname -I").split()[0]
    assert document["extenders"][0]["urlPrefix"] == f"http://{address}:32766/gpushare-scheduler"


def test_the_manifest_keeps_its_mode_and_the_backup_is_unchanged(host: Host) -> None:
    assert host.file(MANIFEST).mode == 0o600
    assert host.file(BACKUP).content_string == host.file("/root/original.yaml").content_string
    assert [host.file(BACKUP).mode, host.file("/etc/kubernetes/manifests-backup").mode] == [0o600, 0o700]


def test_only_the_manifest_is_in_the_folder_of_static_pods(host: Host) -> None:
    assert host.check_output("ls -A /etc/kubernetes/manifests") == "kube-scheduler.yaml"


def test_a_failed_run_leaves_no_files(host: Host, name: str) -> None:
    files = host.check_output("find /etc/kubernetes -type f").split()
    kubeconfig = "/etc/kubernetes/scheduler.conf"
    assert sorted(files) == sorted([FILES[name][1], MANIFEST, BACKUP, kubeconfig])


def test_a_second_scheduler_has_only_a_file(one: Callable[[str], Host]) -> None:
    other = one("gpu-2")
    document = json.loads(other.file("/etc/kubernetes/gpushare/second-scheduler-config.json").content_string)
    assert document["profiles"] == [{"schedulerName": "gpushare-scheduler"}]
    assert not other.file(MANIFEST).exists
