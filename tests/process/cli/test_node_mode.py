"""NVIDIA's plugin is moved off the node and back, as files and as processes."""

import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from gpushare.cli.node_mode import move
from gpushare.errors import ConfigError

NAME = "nvidia-device-plugin.yml"
POD = "kind: Pod\n"


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
        return [sys.executable, "-m", "gpushare", "node-mode", verb, *folders, *flags]

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
