import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from gpushare.cli.scheduler_manifest import command
from gpushare.errors import ConfigError
from tests.support import kubeadm

MANIFEST = "etc/kubernetes/manifests/kube-scheduler.yaml"
BACKUP = "etc/kubernetes/manifests-backup/kube-scheduler.ori.yaml"
CONFIG = "etc/kubernetes/gpushare/scheduler-config.json"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A node of a control plane."""
    place(tmp_path, kubeadm.scheduler("1.36"))
    return tmp_path


def place(root: Path, text: str) -> None:
    file = root / MANIFEST
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(0o600)


def run(root: Path, verb: str, *flags: str) -> Result:
    return CliRunner().invoke(command, [verb, f"--root={root}", *flags], catch_exceptions=False)


def state(root: Path) -> dict[str, tuple[int, int, bytes]]:
    """Every file: its inode, mode and content."""
    files = [each for each in root.rglob("*") if each.is_file()]
    return {
        str(each.relative_to(root)): (each.stat().st_ino, each.stat().st_mode & 0o777, each.read_bytes())
        for each in files
    }


def urls(root: Path) -> list[str]:
    return [each["urlPrefix"] for each in json.loads((root / CONFIG).read_text())["extenders"]]


def test_it_writes_the_configuration_a_backup_and_the_manifest(root: Path) -> None:
    result = run(root, "install")
    assert [line.partition(":")[0] for line in result.output.splitlines()] == ["changed"] * 3
    assert set(state(root)) == {MANIFEST, BACKUP, CONFIG}
    assert (root / BACKUP).read_text() == kubeadm.scheduler("1.36")
    pod = yaml.safe_load((root / MANIFEST).read_text())
    assert f"--config=/{CONFIG}" in pod["spec"]["containers"][0]["command"]


def test_nothing_is_left_in_the_kubelets_folder_but_the_manifest(root: Path) -> None:
    run(root, "install")
    assert [each.name for each in (root / MANIFEST).parent.iterdir()] == ["kube-scheduler.yaml"]


def test_the_manifest_keeps_its_mode_and_the_configuration_can_be_read_by_any_scheduler(root: Path) -> None:
    run(root, "install")
    modes = {name: mode for name, (_, mode, _) in state(root).items()}
    assert modes == {MANIFEST: 0o600, BACKUP: 0o600, CONFIG: 0o644}


def test_a_second_run_touches_no_file(root: Path) -> None:
    run(root, "install")
    before = state(root)
    result = run(root, "install")
    assert set(result.output.split()) == {"unchanged:", f"/{MANIFEST}", f"/{CONFIG}"}
    assert state(root) == before


def test_restore_brings_the_manifest_back_letter_for_letter(root: Path) -> None:
    run(root, "install")
    run(root, "restore")
    assert (root / MANIFEST).read_text() == kubeadm.scheduler("1.36")
    assert run(root, "restore").output == f"unchanged: /{MANIFEST}\n"


def test_restore_keeps_what_was_changed_meanwhile(root: Path) -> None:
    run(root, "install")
    text = (root / MANIFEST).read_text()
    (root / MANIFEST).write_text(text.replace("--leader-elect=true", "--leader-elect=true\n    - --v=4"))
    run(root, "restore")
    pod = yaml.safe_load((root / MANIFEST).read_text())
    assert pod["spec"]["containers"][0]["command"][-2:] == ["--leader-elect=true", "--v=4"]


def test_restore_does_without_a_backup(root: Path) -> None:
    run(root, "install")
    (root / BACKUP).unlink()
    run(root, "restore")
    assert yaml.safe_load((root / MANIFEST).read_text()) == yaml.safe_load(kubeadm.scheduler("1.36"))


def test_after_an_upgrade_by_kubeadm_the_new_manifest_is_edited_and_kept(root: Path) -> None:
    place(root, kubeadm.scheduler("1.29"))
    run(root, "install")
    place(root, kubeadm.scheduler("1.36"))
    run(root, "install")
    assert (root / BACKUP).read_text() == kubeadm.scheduler("1.36")
    assert "kube-scheduler:v1.36.4" in (root / MANIFEST).read_text()


def test_a_dry_run_shows_the_difference_and_writes_nothing(root: Path) -> None:
    before = state(root)
    result = run(root, "install", "--dry-run")
    assert f"+    - --config=/{CONFIG}" in result.output
    assert state(root) == before


@pytest.mark.parametrize(
    ("flags", "url"),
    [
        ([], "http://127.0.0.1:32766/gpushare-scheduler"),
        (["--address=10.0.0.1"], "http://10.0.0.1:32766/gpushare-scheduler"),
        (["--address=fd00::1"], "http://[fd00::1]:32766/gpushare-scheduler"),
        (["--url=http://10.0.0.2:12345/gpushare-scheduler"], "http://10.0.0.2:12345/gpushare-scheduler"),
        (
            ["--address=10.0.0.1", "--ca-file=/etc/kubernetes/gpushare/ca.crt"],
            "https://10.0.0.1:32766/gpushare-scheduler",
        ),
    ],
)
def test_the_extender_is_where_it_is_said_to_be(root: Path, flags: list[str], url: str) -> None:
    run(root, "install", *flags)
    assert urls(root) == [url]


def test_a_configuration_of_the_clusters_own_is_read_and_extended(root: Path) -> None:
    place(root, kubeadm.scheduler("1.36", "--config=/etc/kubernetes/own.yaml"))
    own = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nparallelism: 7\n"
    (root / "etc/kubernetes/own.yaml").write_text(own)
    run(root, "install")
    assert json.loads((root / CONFIG).read_text())["parallelism"] == 7


def broken(root: Path, change: Any) -> None:
    file = root / MANIFEST
    file.write_text(change(file.read_text()))


@pytest.mark.parametrize(
    ("change", "flags", "text"),
    [
        (lambda _: "[", [], "kube-scheduler.yaml is not YAML"),
        (lambda _: "- a", [], "is not a mapping"),
        (lambda text: text.replace(":v1.36.4", ":stable"), [], "give --kubernetes-version"),
        (
            lambda text: text,
            ["--ca-file=/etc/ssl/ca.crt"],
            "/etc/ssl/ca.crt is not in /etc/kubernetes/gpushare",
        ),
        (lambda text: text, ["--manifest=/etc/absent.yaml"], "is kube-scheduler a static pod here"),
        (
            lambda text: text.replace("--leader-elect=true", "--config=/etc/own.yaml"),
            [],
            "has --config=/etc/own.yaml, and there is no",
        ),
    ],
)
def test_what_cannot_be_done_is_told_and_nothing_is_touched(
    root: Path, change: Any, flags: list[str], text: str
) -> None:
    broken(root, change)
    before = state(root)
    with pytest.raises(ConfigError, match=text):
        run(root, "install", *flags)
    assert state(root) == before
