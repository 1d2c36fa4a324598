"""NVIDIA's plugin is moved off the node and back, as files and as processes."""

import json
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from gpushare.cli.node_mode import move
from gpushare.contract import KUBELET_CHECKPOINT, MEM_SOCKET, RESOURCE_MEM
from gpushare.errors import ConfigError

NAME = "nvidia-device-plugin.yml"
POD = "kind: Pod\n"
UID = "0e5a7e0c-6f4f-4a53-9a53-0a2a8a4cbf6c"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


@dataclass
class Host:
    """The two folders of a node."""

    manifests: Path
    backup: Path

    def files(self) -> tuple[list[str], list[str]]:
        return names(self.manifests), names(self.backup)

    def gpushare(self, verb: str, *flags: str) -> list[str]:
        folders = [f"--manifests={self.manifests}", f"--backup={self.backup}"]
        if verb == "recover":
            folders += [f"--device-plugins={self.kubelet}", f"--cgroups={self.cgroups}"]
            folders += [f"--pod-resources-socket={self.kubelet}/none.sock"]
        return [sys.executable, "-m", "gpushare", "node-mode", verb, *folders, *flags]

    @property
    def kubelet(self) -> Path:
        """Its folder of device plugins."""
        return self.manifests.parent / "device-plugins"

    @property
    def cgroups(self) -> Path:
        return self.manifests.parent / "cgroup"

    def allocate(self, uid: str, resource: str = RESOURCE_MEM) -> Path:
        """The cgroup of a pod to which the kubelet has allocated devices."""
        entry = {
            "PodUID": uid,
            "ContainerName": "c",
            "ResourceName": resource,
            "DeviceIDs": {"-1": ["GPU-0-_-0"]},
        }
        checkpoint = {"Data": {"PodDeviceEntries": [entry], "RegisteredDevices": {}}, "Checksum": 1}
        self.kubelet.mkdir(exist_ok=True)
        (self.kubelet / KUBELET_CHECKPOINT).write_text(json.dumps(checkpoint))
        group = self.cgroups / f"memory/kubepods/pod{uid}"
        group.mkdir(parents=True)
        return group

    def run(self, verb: str, *flags: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(  # noqa: S603 - our own program
            self.gpushare(verb, *flags), capture_output=True, text=True, check=False, timeout=30
        )


@pytest.fixture
def host(tmp_path: Path) -> Host:
    manifests = tmp_path / "manifests"
    manifests.mkdir()
    (manifests / NAME).write_text(POD)
    (manifests / "etcd.yaml").write_text("kind: Pod\n")
    return Host(manifests, tmp_path / "backup")


def test_evict_moves_the_manifest_and_no_other(host: Host) -> None:
    done = host.run("evict")
    assert (done.returncode, done.stdout) == (0, f"moved {host.manifests / NAME} to {host.backup}\n")
    assert host.files() == (["etcd.yaml"], [NAME])
    assert (host.backup / NAME).read_text() == POD


def test_recover_moves_the_manifest_back(host: Host) -> None:
    host.run("evict")
    assert host.run("recover").returncode == 0
    assert host.files() == (["etcd.yaml", NAME], [])
    assert (host.manifests / NAME).read_text() == POD


def test_recover_refuses_while_a_pod_shares_a_gpu(host: Host) -> None:
    """NVIDIA's plugin would allocate the GPU a second time."""
    host.run("evict")
    group = host.allocate(UID)
    done = host.run("recover")
    assert done.returncode == 1
    assert f"pods still use units of aliyun.com/gpu-mem here: {UID}; let the pods finish" in done.stderr
    assert host.files() == (["etcd.yaml"], [NAME])
    # The checkpoint keeps the entry of an ended pod until the next allocation.
    group.rmdir()
    assert host.run("recover").returncode == 0
    assert host.files() == (["etcd.yaml", NAME], [])


def test_a_pod_with_a_whole_gpu_does_not_keep_the_plugin_away(host: Host) -> None:
    host.run("evict")
    host.allocate(UID, "nvidia.com/gpu")
    assert host.run("recover").returncode == 0


def test_recover_waits_for_the_pods_that_share_a_gpu(host: Host) -> None:
    host.run("evict")
    group = host.allocate(UID)
    with subprocess.Popen(host.gpushare("recover", "--wait"), stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - our own program
        assert process.stdout
        assert process.stdout.readline() == f"waiting: pods still use units of {RESOURCE_MEM} here: {UID}\n"
        assert host.files() == (["etcd.yaml"], [NAME])
        group.rmdir()
        assert process.stdout.readline().startswith("moved ")
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
    assert host.files() == (["etcd.yaml", NAME], [])


def test_a_recover_that_waits_ends_at_a_signal_and_moves_nothing(host: Host) -> None:
    host.run("evict")
    host.allocate(UID)
    with subprocess.Popen(host.gpushare("recover", "--wait"), stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - our own program
        assert process.stdout
        assert process.stdout.readline().startswith("waiting: ")
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
    assert host.files() == (["etcd.yaml"], [NAME])


def test_recover_waits_for_the_end_of_the_node_agent(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.run("evict")
    host.kubelet.mkdir()
    monkeypatch.chdir(host.kubelet)  # the path of a socket is limited to 107 bytes
    with socket.socket(socket.AF_UNIX) as agent:
        agent.bind(MEM_SOCKET)
        agent.listen()
        process = subprocess.Popen(host.gpushare("recover", "--wait"), stdout=subprocess.PIPE, text=True)  # noqa: S603 - our own program
        assert process.stdout
        assert process.stdout.readline() == "waiting: the node agent still runs here\n"
    # The file of the socket stays after the end of its process.
    assert process.stdout.readline().startswith("moved ")
    process.terminate()
    assert process.wait(10) == 0
    process.stdout.close()


def test_recover_refuses_if_it_cannot_know_and_can_be_forced(host: Host) -> None:
    host.run("evict")
    host.kubelet.mkdir()
    (host.kubelet / KUBELET_CHECKPOINT).write_text("{")
    done = host.run("recover")
    assert "cannot tell whether pods share the GPUs of this node" in done.stderr
    assert host.run("recover", "--force").returncode == 0
    assert host.files() == (["etcd.yaml", NAME], [])


def test_a_second_evict_does_nothing(host: Host) -> None:
    move(NAME, host.manifests, host.backup)
    assert move(NAME, host.manifests, host.backup) == f"{host.backup / NAME} is in place"
    assert host.files() == (["etcd.yaml"], [NAME])


def test_without_the_manifest_nothing_is_moved(host: Host) -> None:
    (host.manifests / NAME).unlink()
    assert move(NAME, host.manifests, host.backup) == f"there is no {host.manifests / NAME}; nothing to do"
    assert host.run("recover").returncode == 0
    assert host.files() == (["etcd.yaml"], [])


def test_a_move_that_was_interrupted_after_the_copy_is_completed(host: Host) -> None:
    host.backup.mkdir()
    (host.backup / NAME).write_text(POD)
    move(NAME, host.manifests, host.backup)
    assert host.files() == (["etcd.yaml"], [NAME])


def test_a_different_file_is_never_overwritten(host: Host) -> None:
    host.backup.mkdir()
    (host.backup / NAME).write_text("kind: Other\n")
    done = host.run("evict")
    assert done.returncode == 1
    assert f"{host.backup / NAME} exists and differs from {host.manifests / NAME}; remove one" in done.stderr
    assert ((host.manifests / NAME).read_text(), (host.backup / NAME).read_text()) == (POD, "kind: Other\n")


def test_the_file_name_can_be_configured(host: Host) -> None:
    assert host.run("evict", "--name=etcd.yaml").returncode == 0
    assert host.files() == ([NAME], ["etcd.yaml"])


@pytest.mark.parametrize("verb", ["evict", "recover"])
def test_a_wrong_manifest_directory_is_an_error_and_is_not_created(host: Host, verb: str) -> None:
    wrong = host.manifests / "wrong"
    done = host.run(verb, f"--manifests={wrong}")
    assert done.returncode == 1
    assert f"{wrong} is not a folder; set --manifests to the staticPodPath of the kubelet" in done.stderr
    assert not wrong.exists()


def test_a_backup_directory_that_cannot_be_created_is_an_error(host: Host) -> None:
    host.backup.write_text("a file")
    with pytest.raises(ConfigError, match="Not a directory"):
        move(NAME, host.manifests, host.backup)
    assert (host.manifests / NAME).read_text() == POD


@pytest.mark.parametrize("name", [signal.SIGTERM, signal.SIGINT])
def test_with_wait_the_command_runs_until_a_signal(host: Host, name: signal.Signals) -> None:
    with subprocess.Popen(host.gpushare("evict", "--wait"), stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - our own program
        assert process.stdout
        assert process.stdout.readline().startswith("moved ")
        assert process.poll() is None
        process.send_signal(name)
        assert process.wait(10) == 0
