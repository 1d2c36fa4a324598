"""The command on a node with a FAKE kubelet; processes, health and extender are real."""

import asyncio
import json
import re
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from devkit.ports import free_ports
from gpushare.adapters.x509 import PemKeyPair, new_authority
from gpushare.cli.certificates.command import LEAVES
from gpushare.cli.certificates.renewals import leaf_of
from gpushare.cli.scheduler_manifest import command
from gpushare.contract import CLIENT_TLS_SECRET, EXTENDER_TLS_SECRET
from gpushare.errors import ConfigError
from testbed import until
from testbed.control_plane.pki import Authority
from tests.support.builders import kubeadm
from tests.support.fakes import static_pod_kubelet

MANIFEST = "etc/kubernetes/manifests/kube-scheduler.yaml"
BACKUP = "etc/kubernetes/manifests-backup/kube-scheduler.ori.yaml"
JOURNAL = "etc/kubernetes/manifests-backup/kube-scheduler.journal.json"
CONFIG = "etc/kubernetes/gpushare/scheduler-config.json"
QUICK = ("--wait=10", "--settle=0")
REFUSED = "--kubernetes-version=1.24"
"""kube-scheduler 1.36 does not read the configuration of that version."""


class Extender(BaseHTTPRequestHandler):
    """Returns 200 for /version."""

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/version" else 404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing."""


@contextmanager
def extender_at(port: int, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """An extender on loopback, on any port for 0; yields its URL."""
    with HTTPServer(("127.0.0.1", port), Extender) as server:
        if tls:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"{'https' if tls else 'http'}://127.0.0.1:{server.server_port}/gpushare-scheduler"
        server.shutdown()
        thread.join()


@dataclass(frozen=True)
class ControlPlane:
    """A node whose kubelet runs kube-scheduler, and the extender's URL."""

    root: Path
    port: int
    url: str

    def original(self, version: str = "1.36", *flags: str) -> str:
        """The manifest of kubeadm, with the port of this test."""
        text = kubeadm.scheduler(version, f"--secure-port={self.port}", *flags)
        return text.replace("10259", str(self.port))

    def place(self, text: str) -> None:
        """Replace the manifest atomically."""
        file = self.root / MANIFEST
        draft = self.root / "draft"
        draft.write_text(text)
        draft.chmod(0o600)
        file.parent.mkdir(parents=True, exist_ok=True)
        draft.rename(file)

    @property
    def manifest(self) -> str:
        return (self.root / MANIFEST).read_text()

    def argv(self, verb: str, *flags: str) -> list[str]:
        url = [f"--url={self.url}", "--extender-wait=0"] if verb == "install" else []
        return [verb, f"--root={self.root}", *QUICK, *url, *flags]

    def run(self, verb: str, *flags: str) -> Result:
        return CliRunner().invoke(command, self.argv(verb, *flags), catch_exceptions=False)

    def fails(self, verb: str, *flags: str) -> str:
        """The text of the error."""
        with pytest.raises(ConfigError) as reported:
            self.run(verb, *flags)
        return str(reported.value)

    def start(self, verb: str, *flags: str) -> subprocess.Popen[str]:
        """The command in a separate process."""
        argv = [sys.executable, "-m", "gpushare", "scheduler-manifest", *self.argv(verb, *flags)]
        return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)  # noqa: S603 - ours

    def edit_until_written(self, *flags: str) -> subprocess.Popen[str]:
        """Start an install that waits for a scheduler that does not become healthy; return after the edit."""
        process = self.start("install", "--wait=100", REFUSED, *flags)

        async def edited() -> bool:
            return self.manifest != self.original_stable

        asyncio.run(until(edited, "the manifest to be edited"))
        return process

    @property
    def original_stable(self) -> str:
        """The manifest with a tag without a version, so that a test can configure a wrong version."""
        return self.original().replace(":v1.36.4", ":stable")

    def state(self) -> dict[str, tuple[int, int, bytes]]:
        """Every file: its inode, mode and content."""
        files = [each for each in (self.root / "etc").rglob("*") if each.is_file()]
        return {
            str(each.relative_to(self.root)): (
                each.stat().st_ino,
                each.stat().st_mode & 0o777,
                each.read_bytes(),
            )
            for each in files
        }


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[ControlPlane]:
    root = tmp_path / "root"
    root.mkdir()
    program = static_pod_kubelet.fake_scheduler(root, tmp_path)
    with extender_at(0) as url:
        plane = ControlPlane(root, free_ports(1)[0], url)
        plane.place(plane.original())
        with static_pod_kubelet.kubelet(root / MANIFEST, root, program):
            yield plane


@pytest.fixture
def untagged(plane: ControlPlane) -> ControlPlane:
    """A control plane with an image without a version tag."""
    plane.place(plane.original_stable)
    return plane


def test_it_writes_the_configuration_a_backup_and_the_manifest(plane: ControlPlane) -> None:
    result = plane.run("install")
    assert "kube-scheduler is healthy" in result.output
    assert set(plane.state()) == {MANIFEST, BACKUP, CONFIG}
    assert (plane.root / BACKUP).read_text() == plane.original()
    pod = yaml.safe_load(plane.manifest)
    assert f"--config=/{CONFIG}" in pod["spec"]["containers"][0]["command"]


def test_the_kubelets_folder_has_only_the_manifest(plane: ControlPlane) -> None:
    plane.run("install")
    assert [each.name for each in (plane.root / MANIFEST).parent.iterdir()] == ["kube-scheduler.yaml"]


def test_the_manifest_keeps_its_mode_and_the_configuration_is_world_readable(
    plane: ControlPlane,
) -> None:
    plane.run("install")
    modes = {name: mode for name, (_, mode, _) in plane.state().items()}
    assert modes == {MANIFEST: 0o600, BACKUP: 0o600, CONFIG: 0o644}


def test_a_second_run_touches_no_file(plane: ControlPlane) -> None:
    plane.run("install")
    before = plane.state()
    result = plane.run("install")
    assert result.output.splitlines() == [f"unchanged: /{MANIFEST}", "kube-scheduler is healthy"]
    assert plane.state() == before


def test_restore_brings_the_manifest_back_byte_for_byte(plane: ControlPlane) -> None:
    plane.run("install")
    plane.run("restore")
    assert plane.manifest == plane.original()
    assert set(plane.state()) == {MANIFEST}
    unchanged = plane.run("restore").output.splitlines()
    assert unchanged == [f"unchanged: /{MANIFEST}", "kube-scheduler is healthy"]


def test_restore_keeps_later_changes(plane: ControlPlane) -> None:
    plane.run("install")
    plane.place(plane.manifest.replace("--leader-elect=true", "--leader-elect=true\n    - --v=4"))
    plane.run("restore")
    pod = yaml.safe_load(plane.manifest)
    assert "--v=4" in pod["spec"]["containers"][0]["command"]
    assert "--config" not in plane.manifest


def test_restore_needs_no_backup(plane: ControlPlane) -> None:
    plane.run("install")
    (plane.root / BACKUP).unlink()
    plane.run("restore")
    assert yaml.safe_load(plane.manifest) == yaml.safe_load(plane.original())


def test_after_an_upgrade_by_kubeadm_the_new_manifest_is_edited_and_kept(plane: ControlPlane) -> None:
    plane.place(plane.original("1.29"))
    plane.run("install")
    plane.place(plane.original("1.36"))
    plane.run("install")
    assert (plane.root / BACKUP).read_text() == plane.original("1.36")
    assert "kube-scheduler:v1.36.4" in plane.manifest


def test_an_extender_that_does_not_answer_leaves_every_file_alone(plane: ControlPlane) -> None:
    before = plane.state()
    dead = f"http://127.0.0.1:{free_ports(1)[0]}"
    reported = plane.fails("install", f"--url={dead}/gpushare-scheduler")
    assert reported.startswith("nothing was changed: the extender does not answer this node")
    assert f"{dead}/version: Connection refused" in reported
    assert plane.state() == before


def test_an_extender_that_starts_later_is_waited_for(plane: ControlPlane) -> None:
    port = free_ports(1)[0]
    url = f"http://127.0.0.1:{port}/gpushare-scheduler"
    process = plane.start("install", f"--url={url}", "--extender-wait=60")
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(1)
    assert plane.manifest == plane.original()
    with extender_at(port):
        output, _ = process.communicate(timeout=30)
    assert process.returncode == 0, output


def test_an_extender_with_mutual_tls_is_checked_with_the_files_of_the_scheduler(plane: ControlPlane) -> None:
    ca = Authority.create("ca")
    folder = plane.root / "etc/kubernetes/gpushare"
    folder.mkdir()
    (folder / "ca.crt").write_bytes(ca.pair().cert)
    ca.client("system:kube-scheduler").write(folder, "tls")
    ca.server("extender", ["extender.example"]).write(folder, "server")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=folder / "ca.crt")
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(folder / "server.crt", folder / "server.key")
    with extender_at(0, context) as url:
        at = "/etc/kubernetes/gpushare"
        trusting = [f"--url={url}", f"--ca-file={at}/ca.crt", "--server-name=extender.example"]
        reported = plane.fails("install", *trusting)
        assert "nothing was changed: the extender does not answer this node" in reported
        known = [f"--cert-file={at}/tls.crt", f"--key-file={at}/tls.key"]
        assert "kube-scheduler is healthy" in plane.run("install", *trusting, *known).output


@pytest.fixture
def secured(plane: ControlPlane, tmp_path: Path) -> Iterator[tuple[ControlPlane, Path]]:
    """A node, an extender with a certificate of the stack, and the mounted Secret of the scheduler."""
    server, secret = tmp_path / "server", tmp_path / "secret"
    for folder, name in ((server, EXTENDER_TLS_SECRET), (secret, CLIENT_TLS_SECRET)):
        write_secret(folder, name, AUTHORITY)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=server / "ca.crt")
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(server / "tls.crt", server / "tls.key")
    with extender_at(0, context) as url:
        yield replace(plane, url=url), secret


AUTHORITY = new_authority("gpushare", datetime.now(UTC), timedelta(days=30))


def write_secret(folder: Path, name: str, authority: PemKeyPair) -> None:
    """What ``gpushare certificates`` writes into the Secret."""
    folder.mkdir(exist_ok=True)
    change = leaf_of({}, LEAVES[name], authority, datetime.now(UTC))
    assert change is not None
    for file, content in change.data.items():
        (folder / file).write_bytes(content)


def test_the_certificate_of_the_scheduler_is_copied_to_the_node_and_used(
    secured: tuple[ControlPlane, Path],
) -> None:
    plane, secret = secured
    assert "kube-scheduler is healthy" in plane.run("install", f"--certificates={secret}").output
    (entry,) = json.loads((plane.root / CONFIG).read_text())["extenders"]
    tls = entry["tlsConfig"]
    assert tls["serverName"] == "gpushare-schd-extender.kube-system.svc"
    for key, name in (("caFile", "ca.crt"), ("certFile", "tls.crt"), ("keyFile", "tls.key")):
        file = plane.root / tls[key].lstrip("/")
        assert file.read_bytes() == (secret / name).read_bytes()
        assert file.stat().st_mode & 0o777 == 0o600


def test_a_renewed_certificate_is_copied_without_a_restart_and_a_new_authority_with_one(
    secured: tuple[ControlPlane, Path],
) -> None:
    plane, secret = secured
    plane.run("install", f"--certificates={secret}")
    before = plane.manifest
    write_secret(secret, CLIENT_TLS_SECRET, AUTHORITY)
    output = plane.run("install", f"--certificates={secret}").output
    assert "changed: /etc/kubernetes/gpushare/tls.crt" in output
    assert plane.manifest == before
    (secret / "ca.crt").write_bytes(AUTHORITY.cert + AUTHORITY.cert)
    plane.run("install", f"--certificates={secret}")
    assert plane.manifest != before


def test_certificates_that_are_not_made_yet_are_an_error_and_nothing_changes(
    secured: tuple[ControlPlane, Path],
) -> None:
    plane, secret = secured
    before = plane.state()
    (secret / "tls.crt").unlink()
    reported = plane.fails("install", f"--certificates={secret}")
    assert reported.startswith(f"nothing was changed: there is no {secret}/tls.crt; mount or copy the Secret")
    assert plane.state() == before


def test_certificates_are_either_copied_or_named(secured: tuple[ControlPlane, Path]) -> None:
    plane, secret = secured
    files = [f"--certificates={secret}", "--ca-file=/etc/kubernetes/gpushare/ca.crt"]
    assert plane.fails("install", *files) == "--certificates and --ca-file exclude each other; keep one"


def test_a_configuration_that_the_scheduler_rejects_is_undone_byte_for_byte(
    untagged: ControlPlane,
) -> None:
    before = untagged.state()
    reported = untagged.fails("install", REFUSED, "--wait=3")
    assert f"/{MANIFEST} was restored, and kube-scheduler is healthy again" in reported
    assert "no kind is registered for version kubescheduler.config.k8s.io/v1beta3" in reported
    after = untagged.state()
    assert after[MANIFEST][1:] == before[MANIFEST][1:]
    assert set(after) == {MANIFEST, BACKUP}


def test_a_scheduler_that_ends_each_time_is_given_up_long_before_the_timeout(
    untagged: ControlPlane,
) -> None:
    reported = untagged.fails("install", REFUSED, "--wait=300")
    assert re.search(r"it has ended \d+ times", reported)  # three, and more if the machine is slow
    assert "kube-scheduler is healthy again" in reported


def test_an_update_that_the_scheduler_rejects_restores_the_previous_configuration(
    untagged: ControlPlane,
) -> None:
    untagged.run("install", "--kubernetes-version=1.36")
    before = {name: kept[1:] for name, kept in untagged.state().items()}
    reported = untagged.fails("install", REFUSED, "--wait=3")
    assert "kube-scheduler is healthy again" in reported
    assert {name: kept[1:] for name, kept in untagged.state().items()} == before


def test_a_scheduler_that_is_not_healthy_before_the_edit_is_not_edited(plane: ControlPlane) -> None:
    plane.place(plane.original().replace("- kube-scheduler\n", "- kube-scheduler\n    - --config=/absent\n"))
    older = {"apiVersion": "kubescheduler.config.k8s.io/v1beta3", "kind": "KubeSchedulerConfiguration"}
    (plane.root / "absent").write_text(json.dumps(older))
    before = plane.state()
    reported = plane.fails("install", "--wait=2")
    assert reported.startswith("nothing was changed: kube-scheduler is not healthy")
    assert plane.state() == before


def test_a_removal_after_which_the_scheduler_is_not_healthy_is_undone(plane: ControlPlane) -> None:
    plane.run("install")
    before = plane.state()
    (plane.root / BACKUP).unlink()
    flag = "gpushare.io/replaced-flag: '[{}]'"
    replaced = plane.manifest.replace(flag.format(""), flag.format('"--config=/old"'))
    plane.place(replaced)
    (plane.root / "old").write_text('{"apiVersion": "kubescheduler.config.k8s.io/v1beta3"}')
    reported = plane.fails("restore", "--wait=3")
    assert "kube-scheduler is healthy again" in reported
    assert plane.manifest == replaced
    assert plane.state()[CONFIG][2] == before[CONFIG][2]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_next_run_repairs_what_an_interrupted_installer_left(
    untagged: ControlPlane, number: signal.Signals
) -> None:
    process = untagged.edit_until_written()
    process.send_signal(number)
    process.communicate(timeout=30)
    if number is signal.SIGKILL:
        assert (untagged.root / JOURNAL).exists()
    else:
        assert untagged.manifest == untagged.original_stable
    reported = untagged.fails("install", REFUSED, "--wait=3")
    assert "kube-scheduler is healthy again" in reported
    assert untagged.manifest == untagged.original_stable
    assert set(untagged.state()) == {MANIFEST, BACKUP}


def test_a_run_with_correct_settings_completes_the_edit_of_a_killed_installer(untagged: ControlPlane) -> None:
    process = untagged.edit_until_written()
    process.kill()
    process.communicate()
    result = untagged.run("install", "--kubernetes-version=1.36")
    assert "kube-scheduler is healthy" in result.output
    assert set(untagged.state()) == {MANIFEST, BACKUP, CONFIG}
    untagged.run("restore")
    assert untagged.manifest == untagged.original_stable


def test_the_edit_of_a_killed_installer_is_undone_if_its_extender_is_gone(untagged: ControlPlane) -> None:
    process = untagged.edit_until_written()
    process.kill()
    process.communicate()
    reported = untagged.fails("install", REFUSED, "--url=http://127.0.0.1:1/gpushare-scheduler")
    assert "was restored, and kube-scheduler is healthy again: the extender does not answer" in reported
    assert untagged.manifest == untagged.original_stable


def test_a_journal_older_than_the_manifest_is_ignored(untagged: ControlPlane) -> None:
    process = untagged.edit_until_written()
    process.kill()
    process.communicate()
    untagged.place(untagged.original())
    untagged.run("install")
    assert (untagged.root / BACKUP).read_text() == untagged.original()
    assert set(untagged.state()) == {MANIFEST, BACKUP, CONFIG}


def test_two_edits_of_one_node_do_not_run_at_the_same_time(untagged: ControlPlane) -> None:
    process = untagged.edit_until_written()
    assert "another process edits" in untagged.fails("restore")
    process.terminate()
    process.communicate(timeout=30)


def test_a_dry_run_shows_the_difference_and_writes_nothing(plane: ControlPlane) -> None:
    before = plane.state()
    result = plane.run("install", "--dry-run")
    assert f"+    - --config=/{CONFIG}" in result.output
    assert plane.state() == before


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
def test_the_configured_url_of_the_extender_is_used(tmp_path: Path, flags: list[str], url: str) -> None:
    plane = ControlPlane(tmp_path, 10259, "")
    plane.place(plane.original())
    arguments = ["install", f"--root={tmp_path}", "--dry-run", *flags]
    result = CliRunner().invoke(command, arguments, catch_exceptions=False)
    assert f'+      "urlPrefix": "{url}",' in result.output


def test_a_configuration_of_the_clusters_own_is_read_and_extended(plane: ControlPlane) -> None:
    own = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    (plane.root / "etc/kubernetes/own.yaml").write_text(json.dumps({**own, "parallelism": 7}))
    plane.place(plane.original("1.36", "--config=/etc/kubernetes/own.yaml"))
    plane.run("install")
    assert json.loads((plane.root / CONFIG).read_text())["parallelism"] == 7


@pytest.mark.parametrize(
    ("change", "flags", "text"),
    [
        (lambda _: "[", [], "kube-scheduler.yaml is not YAML"),
        (lambda _: "- a", [], "is not a mapping"),
        (
            lambda _: "metadata: {name: a}\nspec: {containers: 3}",
            [],
            "is not a static pod: spec.containers is not a list",
        ),
        (lambda text: text.replace(":v1.36.4", ":stable"), [], "set --kubernetes-version"),
        (
            lambda text: text,
            ["--ca-file=/etc/ssl/ca.crt"],
            "/etc/ssl/ca.crt is not in /etc/kubernetes/gpushare",
        ),
        (lambda text: text, ["--manifest=/etc/absent.yaml"], "is kube-scheduler a static pod here"),
        (lambda text: text, ["--manifest=/absent/absent.yaml"], "is kube-scheduler a static pod here"),
        (
            lambda text: text.replace("--leader-elect=true", "--config=/etc/own.yaml"),
            [],
            "has --config=/etc/own.yaml, but there is no",
        ),
        (
            lambda text: text,
            ["--url=https://127.0.0.1:1/x", "--ca-file=/etc/kubernetes/gpushare/absent.crt"],
            "nothing was changed: the extender does not answer this node (cannot use the TLS files",
        ),
        (lambda text: text, ["--control-planes=3"], "--control-planes needs POD_NAME"),
        (lambda text: text, ["--address=10.0.0.1"], "--address and --url exclude each other; keep one"),
        (lambda text: text, ["--server-name=extender.example"], "TLS needs a CA file"),
    ],
)
def test_an_impossible_edit_is_an_error_and_changes_nothing(
    tmp_path: Path, change: Any, flags: list[str], text: str
) -> None:
    plane = ControlPlane(tmp_path, 10259, "http://127.0.0.1:1/gpushare-scheduler")
    plane.place(change(plane.original()))
    before = plane.state()
    assert text in plane.fails("install", *flags)
    assert plane.state() == before


@pytest.mark.parametrize("verb", ["install", "restore"])
def test_a_manifest_that_is_not_text_is_an_error(tmp_path: Path, verb: str) -> None:
    plane = ControlPlane(tmp_path, 10259, "http://127.0.0.1:1/gpushare-scheduler")
    plane.place(plane.original())
    (plane.root / MANIFEST).write_bytes(b"\xff\xfe")
    assert "kube-scheduler.yaml is not text" in plane.fails(verb)
