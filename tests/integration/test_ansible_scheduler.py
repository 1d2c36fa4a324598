"""The role scheduler_extender on a host of the control plane: a real kubelet runs the manifest that it edits.

The image of kube-scheduler is the real program of its version. The extender is reached at the host's own
address only, as where kube-proxy serves no node ports on loopback.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from gpushare.contract import ANN_IDX, EXTENDER_NODE_PORT
from testbed import Bed, Card, SchedulerSpec, SimNode, Testbed, TestbedError, build, gpu_pod, until
from testbed.extender import ACCOUNT, ExtenderSpec, grant
from testbed.kubelets import KubeletNode, KubeletSpec, add_kubelet, needs
from tests.support import kubeadm, playbooks, program_image

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(600)]

try:
    needs.look()
except TestbedError as reason:
    pytest.skip(str(reason), allow_module_level=True)
if not playbooks.PLAYBOOK.exists():
    pytest.skip(playbooks.MISSING, allow_module_level=True)

FOLDER = "/etc/kubernetes"
MANIFEST = f"{FOLDER}/manifests/kube-scheduler.yaml"
BACKUPS = f"{FOLDER}/manifests-backup"
TOOLS = {"1.22": "kube-scheduler-1.22", "1.36": "kube-scheduler"}
# The API server here is a later one, and does not serve what 1.22 would watch with that feature.
FLAGS = {"1.22": ["--feature-gates=CSIStorageCapacity=false"], "1.36": []}
CONFIGS = {
    "1.22": f"{FOLDER}/scheduler-policy-config.json",
    "1.36": f"{FOLDER}/gpushare/scheduler-config.json",
}
DEAD = "http://127.0.0.1:1/gpushare-scheduler"
PODS = "/api/v1/namespaces/default/pods"


@dataclass(frozen=True)
class ControlPlane:
    """A host whose kubelet runs kube-scheduler, and the extender beside it."""

    bed: Bed
    node: KubeletNode
    version: str
    folder: Path

    def text(self, path: str = MANIFEST) -> str:
        """A file of the host."""
        return self.node.path(path).read_text()

    def command(self, variables: Mapping[str, Any], *flags: str) -> list[str]:
        """Ansible on the host itself, whose files are not those of this machine."""
        limits = {"wait_s": 90, "settle_s": 3, "answer_s": 4}
        fixed = {f"scheduler_extender_{name}": value for name, value in limits.items()}
        argv = playbooks.role(self.folder, "scheduler_extender", self.node.name, {**fixed, **variables})
        return self.node.inside([*argv, *flags])

    async def run(self, *flags: str, **variables: Any) -> playbooks.Run:
        """The role with these variables, without their prefix."""
        named = {f"scheduler_extender_{name}": value for name, value in variables.items()}
        return await playbooks.run(self.command(named, *flags))

    async def place(self, name: str, units: int) -> dict[str, Any]:
        """A pod's object when it is bound."""
        await self.bed.create_pods([gpu_pod(name, units)])

        async def bound() -> dict[str, Any] | None:
            pod = await self.bed.api.get(f"{PODS}/{name}")
            return pod if pod["spec"].get("nodeName") else None

        found = await until(bound, f"pod {name} to be bound", 60)
        assert found is not None
        await self.bed.api.delete(f"{PODS}/{name}", gracePeriodSeconds="0")
        return found

    async def scheduler_runs(self, *, ours: bool) -> bool:
        """Whether kube-scheduler runs, with our configuration or without."""
        pids = await self.node.run_text(
            ["sh", "-c", "pgrep -x kube-scheduler | xargs -n1 -I{} cat /proc/{}/cmdline"]
        )
        return bool(pids) and (CONFIGS[self.version] in pids) is ours


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plane(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[ControlPlane]:
    folder = tmp_path_factory.mktemp("plane")
    async with Testbed(scheduler=SchedulerSpec(None)) as bed:
        spec = KubeletSpec("cp", config={"staticPodPath": f"{FOLDER}/manifests"})
        plane = ControlPlane(bed, await add_kubelet(bed, spec), request.param, folder)
        await load_scheduler(plane)
        await start_extender(plane)
        await bed.add_nodes([SimNode("n", [Card()])])
        await place_manifest(plane)
        await plane.place("first", 4)
        yield plane


async def load_scheduler(plane: ControlPlane) -> None:
    tool = TOOLS[plane.version]
    program = (await build.ensure([tool]))[tool].path
    image = yaml.safe_load(kubeadm.scheduler(plane.version))["spec"]["containers"][0]["image"]
    program_image.save(plane.folder / "image.tar", image, "kube-scheduler", program)
    await plane.node.load_images(plane.folder / "image.tar")


async def start_extender(plane: ControlPlane) -> None:
    await grant(plane.bed)
    address = plane.node.address
    flags = (f"--host={address}", f"--ops-host={address}")
    spec = ExtenderSpec(port=EXTENDER_NODE_PORT, flags=flags)
    argv = spec.argv(plane.bed.kubeconfig_for(ACCOUNT))
    await plane.node.spawn("extender", argv, ready=f"http://{address}:{spec.ops_port}/readyz")


async def place_manifest(plane: ControlPlane) -> None:
    """What kubeadm leaves on a host."""
    user = plane.bed.kubeconfig_for("system:kube-scheduler")
    kubeconfig = plane.node.path(f"{FOLDER}/scheduler.conf")
    kubeconfig.parent.mkdir(exist_ok=True)
    view = ["config", "view", f"--kubeconfig={user}", "--flatten", "--raw"]
    kubeconfig.write_text(await plane.bed.kubectl(*view))
    manifest = plane.node.path(MANIFEST)
    manifest.parent.mkdir(exist_ok=True)
    manifest.write_text(original(plane))
    manifest.chmod(0o600)


def original(plane: ControlPlane) -> str:
    return kubeadm.scheduler(plane.version, *FLAGS[plane.version])


@pytest.mark.parametrize("plane", TOOLS, indirect=True)
async def test_the_edited_scheduler_binds_through_the_extender_and_absent_brings_the_old_one_back(
    plane: ControlPlane,
) -> None:
    before = await plane.run("--check", "--diff")
    assert before.code == 0, before.output
    assert f"+++ after: {CONFIGS[plane.version]}" in before.said
    assert plane.text() == original(plane)

    first = await plane.run()
    assert first.code == 0, first.output
    url = f"http://{plane.node.address}:{EXTENDER_NODE_PORT}/gpushare-scheduler"
    assert f"{url}: answers" in first.said
    assert f"http://127.0.0.1:{EXTENDER_NODE_PORT}/gpushare-scheduler: Status code was -1" in first.said
    assert await plane.scheduler_runs(ours=True)
    assert ANN_IDX in (await plane.place("shared", 4))["metadata"]["annotations"]

    again = await plane.run()
    assert (again.code, again.changed) == (0, {"cp": 0}), again.output

    gone = await plane.run(state="absent")
    assert gone.code == 0, gone.output
    assert plane.text() == original(plane)
    assert await plane.scheduler_runs(ours=False)
    assert not plane.node.path(CONFIGS[plane.version]).exists()
    assert ANN_IDX not in (await plane.place("plain", 4))["metadata"].get("annotations", {})
    assert (await plane.run(state="absent")).changed == {"cp": 0}


@pytest.mark.parametrize("plane", ["1.36"], indirect=True)
async def test_an_extender_that_nobody_reaches_leaves_everything_as_it_is(plane: ControlPlane) -> None:
    refused = await plane.run(urls=[DEAD])
    assert refused.code != 0
    assert "so nothing was touched" in refused.said
    assert plane.text() == original(plane)
    assert refused.changed == {"cp": 0}


@pytest.mark.parametrize("plane", TOOLS, indirect=True)
async def test_a_broken_extender_url_ends_in_the_restore_of_the_manifest(plane: ControlPlane) -> None:
    broken = await plane.run(urls=[DEAD], probe="after")
    assert broken.code != 0
    assert "was put back as it was, and the scheduler is well again" in broken.said
    assert plane.text() == original(plane)
    assert await plane.scheduler_runs(ours=False)
    assert not plane.node.path(f"{BACKUPS}/kube-scheduler.journal.json").exists()
    await plane.place("after-broken", 4)


@pytest.mark.parametrize("plane", ["1.36"], indirect=True)
async def test_a_scheduler_that_cannot_read_its_configuration_is_put_back_and_says_why(
    plane: ControlPlane,
) -> None:
    tls = {"ca_file": f"{FOLDER}/gpushare/absent.crt"}
    urls = [f"https://{plane.node.address}:{EXTENDER_NODE_PORT}/gpushare-scheduler"]
    broken = await plane.run(urls=urls, tls=tls, probe="never", wait_s=30)
    assert broken.code != 0
    assert "absent.crt: no such file or directory" in broken.said
    assert "the scheduler is well again" in broken.said
    assert plane.text() == original(plane)


@pytest.mark.parametrize("plane", ["1.36"], indirect=True)
async def test_a_run_that_was_killed_is_finished_by_the_next_one(plane: ControlPlane) -> None:
    await killed_after_the_edit(plane, scheduler_extender_urls=[DEAD], scheduler_extender_probe="after")
    assert plane.text() != original(plane)
    back = await plane.run(urls=[DEAD], probe="after")
    assert back.code != 0
    assert plane.text() == original(plane)

    await killed_after_the_edit(plane)
    forward = await plane.run()
    assert forward.code == 0, forward.output
    assert (await plane.run()).changed == {"cp": 0}
    assert (await plane.run(state="absent")).code == 0
    assert plane.text() == original(plane)


async def killed_after_the_edit(plane: ControlPlane, **variables: Any) -> None:
    process = await playbooks.start(plane.command(variables))

    async def edited() -> bool:
        return plane.text() != original(plane)

    await until(edited, "the manifest to be edited", 60)
    playbooks.kill(process)
    await process.communicate()
