"""The role scheduler_extender on a control plane host: a real kubelet runs the manifest that it edits.

The image of kube-scheduler is the real program of its version. The extender listens only on the address of
the host, as with a kube-proxy that serves no node ports on loopback.
"""

import base64
import re
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from components.config_extender import Exposure, Extender
from components.manifests import certificates
from components.render import as_yaml
from devkit.process import run_text
from gpushare.contract import ANN_IDX, CLIENT_TLS_SECRET, EXTENDER_NODE_PORT, EXTENDER_TLS_SECRET
from gpushare.kubescheduler.config import KubernetesVersion
from testbed import Bed, SchedulerSpec, SimGpu, SimNode, Testbed, until
from testbed.daemons.extender import ACCOUNT, ExtenderSpec, grant
from testbed.kubelets import KubeletNode, KubeletSpec, add_kubelet
from tests.support.fixtures import playbooks, static_scheduler
from tests.support.fixtures.static_scheduler import FOLDER, MANIFEST

pytestmark = [
    pytest.mark.needs("kubelet", "playbooks"),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(1800),
]

HOSTS = ["1.22", pytest.param("1.36", marks=pytest.mark.short)]
BACKUPS = f"{FOLDER}/manifests-backup"
CONFIGS = {
    "1.22": f"{FOLDER}/scheduler-policy-config.json",
    "1.36": f"{FOLDER}/gpushare/scheduler-config.json",
}
SECRETS = "/api/v1/namespaces/kube-system/secrets"
DEAD = "http://127.0.0.1:1/gpushare-scheduler"


@dataclass(frozen=True)
class ControlPlane:
    """A host whose kubelet runs kube-scheduler, and the extender beside it."""

    bed: Bed
    node: KubeletNode
    version: str
    folder: Path

    def text(self, path: str = MANIFEST) -> str:
        """The text of a file of the host."""
        return self.node.path(path).read_text()

    def files(self) -> set[Path]:
        """All files in the folder of Kubernetes."""
        return {each for each in self.node.path(FOLDER).rglob("*") if each.is_file()}

    def command(self, variables: Mapping[str, Any], *flags: str) -> list[str]:
        """The command that runs Ansible on the host, with the files of the host."""
        limits = {"wait_s": 90, "settle_s": 3, "answer_s": 4}
        fixed = {f"scheduler_extender_{name}": value for name, value in limits.items()}
        plain = {"scheduler_extender_client_secret": "", **variables}
        argv = playbooks.role(self.folder, "scheduler_extender", self.node.name, {**fixed, **plain})
        return self.node.inside([*argv, *flags])

    async def run(self, *flags: str, **variables: Any) -> playbooks.Run:
        """Run the role with these variables, given without their prefix."""
        named = {f"scheduler_extender_{name}": value for name, value in variables.items()}
        return await playbooks.run(self.command(named, *flags))

    async def place(self, name: str) -> dict[str, Any]:
        """The object of a new pod after its bind."""
        return await static_scheduler.place(self.bed, name, 4)

    async def scheduler_runs(self, *, ours: bool) -> bool:
        """Whether kube-scheduler runs, with our configuration or without."""
        return await static_scheduler.runs_with(self.node, CONFIGS[self.version]) is ours


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def host(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[ControlPlane]:
    folder = tmp_path_factory.mktemp("plane")
    async with Testbed(scheduler=SchedulerSpec(None)) as bed:
        spec = KubeletSpec("cp", config=static_scheduler.STATIC_PODS)
        plane = ControlPlane(bed, await add_kubelet(bed, spec), request.param, folder)
        await grant(bed)
        await start_extender(plane)
        await bed.add_nodes([SimNode("n", [SimGpu()])])
        await static_scheduler.install(plane.node, plane.version, folder)
        await plane.place("first")
        yield plane


@pytest_asyncio.fixture(loop_scope="module")
async def plane(host: ControlPlane) -> ControlPlane:
    """The host as it was in the beginning, whatever the test before has left."""
    if host.text() != original(host):
        restored = await host.run(state="absent")
        assert restored.code == 0, restored.output
    for backup in host.node.path(BACKUPS).glob("*"):  # an edit that was undone leaves one
        backup.unlink()
    if is_secure(host):
        await host.node.stop("extender")
        await start_extender(host)
    return host


@pytest_asyncio.fixture(loop_scope="module")
async def secured(host: ControlPlane) -> ControlPlane:
    """The host with a scheduler that calls the extender over mutual TLS, by the role."""
    if not is_secure(host):
        await secure_extender(host)
    if host.text() == original(host):
        edited = await host.run(**with_certificate(host))
        assert edited.code == 0, edited.output
    return host


def is_secure(plane: ControlPlane) -> bool:
    """Whether the extender serves TLS."""
    return any(word.startswith("--tls-cert") for word in plane.node.process("extender").command.argv)


async def start_extender(plane: ControlPlane, *flags: str) -> None:
    address = plane.node.address
    more = (f"--host={address}", f"--ops-host={address}", *flags)
    spec = ExtenderSpec(port=EXTENDER_NODE_PORT, flags=more)
    argv = spec.argv(plane.bed.kubeconfig_for(ACCOUNT))
    await plane.node.spawn("extender", argv, ready=f"http://{address}:{spec.ops_port}/readyz")


async def secure_extender(plane: ControlPlane) -> None:
    """Replace the extender by one with a certificate from its Secret, as the kubelet mounts it."""
    await apply_certificates(plane)
    await run_text(issue_certificates(plane), timeout_s=60)
    await plane.node.stop("extender")
    data = (await plane.bed.api.get(f"{SECRETS}/{EXTENDER_TLS_SECRET}"))["data"]
    for key, text in data.items():
        (plane.folder / key).write_bytes(base64.b64decode(text))
    files = {"tls-cert": "tls.crt", "tls-key": "tls.key", "client-ca": "ca.crt"}
    await start_extender(plane, *(f"--{flag}={plane.folder}/{name}" for flag, name in files.items()))


async def apply_certificates(plane: ControlPlane) -> None:
    """The Secrets of the stack, without data."""
    settings = Extender(exposure=Exposure.NODE_PORT, certificates_image="example.com/cli:1")
    objects = certificates.objects(settings, KubernetesVersion(1, 36))
    await plane.bed.kubectl("apply", "--server-side", "-f", "-", stdin=as_yaml(objects))


def original(plane: ControlPlane) -> str:
    return static_scheduler.original(plane.version)


@pytest.mark.parametrize("host", HOSTS, indirect=True)
async def test_the_edited_scheduler_binds_through_the_extender_and_absent_restores_the_manifest(
    plane: ControlPlane,
) -> None:
    files = plane.files()
    before = await plane.run("--check", "--diff")
    assert before.code == 0, before.output
    assert f"+++ after: {CONFIGS[plane.version]}" in before.text
    assert plane.text() == original(plane)

    first = await plane.run()
    assert first.code == 0, first.output
    url = f"http://{plane.node.address}:{EXTENDER_NODE_PORT}/gpushare-scheduler"
    assert f"{url}: answers" in first.text
    assert f"http://127.0.0.1:{EXTENDER_NODE_PORT}/version: Connection refused" in first.text
    assert await plane.scheduler_runs(ours=True)
    assert ANN_IDX in (await plane.place("shared"))["metadata"]["annotations"]

    again = await plane.run()
    assert (again.code, again.changed) == (0, {"cp": 0}), again.output

    gone = await plane.run(state="absent")
    assert gone.code == 0, gone.output
    assert plane.text() == original(plane)
    assert await plane.scheduler_runs(ours=False)
    assert plane.files() == files
    assert ANN_IDX not in (await plane.place("plain"))["metadata"].get("annotations", {})
    assert (await plane.run(state="absent")).changed == {"cp": 0}


@pytest.mark.parametrize("host", ["1.36"], indirect=True)
async def test_an_unreachable_extender_changes_nothing(plane: ControlPlane) -> None:
    refused = await plane.run(urls=[DEAD])
    assert refused.code != 0
    assert "so nothing was changed" in refused.text
    assert plane.text() == original(plane)
    assert refused.changed == {"cp": 0}


@pytest.mark.parametrize("host", ["1.36"], indirect=True)
async def test_a_scheduler_that_cannot_read_its_configuration_is_restored_with_the_reason(
    plane: ControlPlane,
) -> None:
    tls = {"ca_file": f"{FOLDER}/gpushare/absent.crt"}
    urls = [f"https://{plane.node.address}:{EXTENDER_NODE_PORT}/gpushare-scheduler"]
    broken = await plane.run(urls=urls, tls=tls, probe="never")
    assert broken.code != 0
    assert re.search(r"it has ended \d+ times", broken.text)  # three, and more if the machine is slow
    assert "absent.crt: no such file or directory" in broken.text
    assert "kube-scheduler is healthy again" in broken.text
    assert plane.text() == original(plane)


@pytest.mark.parametrize("host", ["1.36"], indirect=True)
async def test_absent_removes_the_backup_of_an_undone_edit_only_if_the_manifest_equals_it(
    plane: ControlPlane,
) -> None:
    backup = plane.node.path(f"{BACKUPS}/kube-scheduler.ori.yaml")
    backup.parent.mkdir(exist_ok=True)
    backup.write_text(f"{original(plane)}# other\n")
    other = await plane.run(state="absent")
    assert (other.code, other.changed, backup.exists()) == (0, {"cp": 0}, True), other.output

    backup.write_text(original(plane))
    equal = await plane.run(state="absent")
    assert (equal.code, equal.changed, backup.exists()) == (0, {"cp": 1}, False), equal.output
    assert plane.text() == original(plane)


@pytest.mark.parametrize("host", ["1.36"], indirect=True)
async def test_the_next_run_undoes_or_completes_one_that_was_killed(
    plane: ControlPlane,
) -> None:
    files = plane.files()
    await killed_after_the_edit(plane, scheduler_extender_urls=[DEAD], scheduler_extender_probe="after")
    assert plane.text() != original(plane)
    back = await plane.run(urls=[DEAD], probe="after")
    assert back.code != 0
    assert "was restored, and kube-scheduler is healthy again" in back.text
    assert plane.text() == original(plane)
    assert await plane.scheduler_runs(ours=False)
    assert not plane.node.path(f"{BACKUPS}/kube-scheduler.journal.json").exists()
    await plane.place("after-restored")

    await killed_after_the_edit(plane)
    forward = await plane.run()
    assert forward.code == 0, forward.output
    assert await plane.scheduler_runs(ours=True)
    assert not plane.node.path(f"{BACKUPS}/kube-scheduler.journal.json").exists()
    assert (await plane.run(state="absent")).code == 0
    assert plane.text() == original(plane)
    assert plane.files() <= files


async def killed_after_the_edit(plane: ControlPlane, **variables: Any) -> None:
    process = await playbooks.start(plane.command(variables))

    async def edited() -> bool:
        return plane.text() != original(plane)

    await until(edited, "the manifest to be edited", 60)
    playbooks.kill(process)
    await process.communicate()


@pytest.mark.parametrize("host", ["1.36"], indirect=True)
async def test_without_a_certificate_in_the_cluster_nothing_is_changed(plane: ControlPlane) -> None:
    await plane.bed.kubectl(
        "delete", "secret", CLIENT_TLS_SECRET, "--namespace=kube-system", "--ignore-not-found"
    )
    absent = await plane.run(**with_certificate(plane))
    assert absent.code != 0
    assert f"there is no Secret kube-system/{CLIENT_TLS_SECRET}, so nothing was changed" in absent.text

    await apply_certificates(plane)
    empty = await plane.run(**with_certificate(plane))
    assert (
        f"Secret kube-system/{CLIENT_TLS_SECRET} has no certificate yet, so nothing was changed" in empty.text
    )
    assert (empty.changed, plane.text()) == ({"cp": 0}, original(plane))


@pytest.mark.parametrize("host", HOSTS, indirect=True)
async def test_the_role_fetches_the_certificate_and_the_scheduler_binds_over_mutual_tls(
    plane: ControlPlane,
) -> None:
    await secure_extender(plane)
    first = await plane.run(**with_certificate(plane))
    assert first.code == 0, first.output
    assert await plane.scheduler_runs(ours=True)
    assert ANN_IDX in (await plane.place("shared-by-tls"))["metadata"]["annotations"]
    key = plane.node.path(f"{FOLDER}/gpushare/tls.key")
    assert key.stat().st_mode & 0o777 == 0o600
    assert key.read_text() not in first.output


@pytest.mark.parametrize("host", ["1.36"], indirect=True)
async def test_only_a_renewed_certificate_is_copied_and_the_manifest_stays(secured: ControlPlane) -> None:
    again = await secured.run(**with_certificate(secured))
    assert (again.code, again.changed) == (0, {"cp": 0}), again.output

    manifest = secured.text()
    await run_text([*issue_certificates(secured), "--renew"], timeout_s=60)
    renewed = await secured.run(**with_certificate(secured))
    assert (renewed.code, renewed.changed) == (0, {"cp": 1}), renewed.output
    assert secured.text() == manifest


def with_certificate(plane: ControlPlane) -> dict[str, str]:
    """The variables with which the role reads the certificate from the cluster."""
    return {"client_secret": CLIENT_TLS_SECRET, "cluster_kubeconfig": str(plane.bed.kubeconfig)}


def issue_certificates(plane: ControlPlane) -> list[str]:
    return [sys.executable, "-m", "gpushare", "certificates", f"--kubeconfig={plane.bed.kubeconfig}"]
