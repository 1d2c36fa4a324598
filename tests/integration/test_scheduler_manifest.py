"""``gpushare scheduler-manifest`` on a control plane host: a real kubelet runs the edited manifest.

The image of kube-scheduler is the real program of its version. What the Job adds, turns and permissions,
is tested with its image (``tests/e2e/test_installer.py``).
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio
import yaml

from gpushare.contract import ANN_IDX, EXTENDER_NODE_PORT
from testbed import Bed, SchedulerSpec, SimGpu, SimNode, Testbed, until
from testbed.daemons.extender import ACCOUNT, ExtenderSpec, grant
from testbed.kubelets import KubeletNode, KubeletSpec, add_kubelet
from tests.support.fixtures import static_scheduler
from tests.support.fixtures.static_scheduler import FOLDER, MANIFEST, TOOLS

pytestmark = [
    pytest.mark.needs("kubelet"),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(600),
]

CONFIGS = {
    "1.22": f"{FOLDER}/gpushare/scheduler-policy-config.json",
    "1.36": f"{FOLDER}/gpushare/scheduler-config.json",
}
TAG = "stable"
"""A tag without a version."""
REFUSED = "--kubernetes-version=1.24"
"""kube-scheduler 1.36 cannot read the configuration of that version."""


@dataclass(frozen=True)
class Run:
    """Exit code and output of a command."""

    code: int
    output: str


@dataclass(frozen=True)
class ControlPlane:
    """A host whose kubelet runs kube-scheduler, and the extender beside it."""

    bed: Bed
    node: KubeletNode
    version: str

    @property
    def original(self) -> str:
        return static_scheduler.original(self.version, TAG)

    @property
    def manifest(self) -> str:
        return self.node.path(MANIFEST).read_text()

    def files(self) -> dict[str, bytes]:
        """All files in the folder of Kubernetes, by path."""
        found = self.node.path(FOLDER).rglob("*")
        return {str(each): each.read_bytes() for each in found if each.is_file()}

    async def start(self, verb: str, *flags: str) -> asyncio.subprocess.Process:
        """Start the command on the host, with the files and processes of the host."""
        url = [f"--address={self.node.address}"] if verb == "install" else []
        argv = [sys.executable, "-m", "gpushare", "scheduler-manifest", verb, "--settle=3", *url, *flags]
        return await asyncio.create_subprocess_exec(
            *self.node.inside(argv), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )

    async def run(self, verb: str, *flags: str) -> Run:
        process = await self.start(verb, *flags)
        output, _ = await process.communicate()
        return Run(process.returncode or 0, output.decode())

    async def killed_half_way(self) -> None:
        """Kill an install while the new scheduler keeps failing."""
        process = await self.start("install", REFUSED)
        await until(self._is_down, "kube-scheduler to be down", 60)
        process.kill()
        await process.communicate()

    async def _is_down(self) -> bool:
        return self.manifest != self.original and not await self.scheduler_runs()

    async def scheduler_runs(self, *, ours: bool | None = None) -> bool:
        """Whether kube-scheduler runs, with our configuration or without; None for either."""
        found = await static_scheduler.runs_with(self.node, CONFIGS[self.version])
        return found is not None and ours in (None, found)

    async def place(self, name: str) -> dict[str, Any]:
        """The object of a new pod after its bind."""
        return await static_scheduler.place(self.bed, name, 4)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plane(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[ControlPlane]:
    async with Testbed(scheduler=SchedulerSpec(None)) as bed:
        spec = KubeletSpec("cp", config=static_scheduler.STATIC_PODS)
        plane = ControlPlane(bed, await add_kubelet(bed, spec), request.param)
        await start_extender(plane)
        await bed.add_nodes([SimNode("n", [SimGpu()])])
        await static_scheduler.install(plane.node, plane.version, tmp_path_factory.mktemp("images"), TAG)
        await plane.place("first")
        yield plane


async def start_extender(plane: ControlPlane) -> None:
    await grant(plane.bed)
    address = plane.node.address
    spec = ExtenderSpec(port=EXTENDER_NODE_PORT, flags=(f"--host={address}", f"--ops-host={address}"))
    argv = spec.argv(plane.bed.kubeconfig_for(ACCOUNT))
    await plane.node.spawn("extender", argv, ready=f"http://{address}:{spec.ops_port}/readyz")


@pytest.mark.parametrize("plane", TOOLS, indirect=True)
async def test_the_edited_scheduler_binds_through_the_extender_and_restore_undoes_the_edit(
    plane: ControlPlane,
) -> None:
    version = f"--kubernetes-version={plane.version}"
    first = await plane.run("install", version)
    assert first.code == 0, first.output
    assert await plane.scheduler_runs(ours=True)
    assert ANN_IDX in (await plane.place("shared"))["metadata"]["annotations"]

    before = plane.files()
    again = await plane.run("install", version)
    assert (again.code, plane.files()) == (0, before), again.output

    gone = await plane.run("restore")
    assert gone.code == 0, gone.output
    assert plane.manifest == plane.original
    assert await plane.scheduler_runs(ours=False)
    assert ANN_IDX not in (await plane.place("plain"))["metadata"].get("annotations", {})


@pytest.mark.parametrize("plane", ["1.36"], indirect=True)
async def test_an_extender_that_does_not_answer_changes_nothing(plane: ControlPlane) -> None:
    before = plane.files()
    dead = "--url=http://127.0.0.1:1/gpushare-scheduler"
    refused = await plane.run("install", dead, "--address=", "--kubernetes-version=1.36", "--extender-wait=1")
    assert refused.code == 1
    assert "nothing was changed: the extender does not answer this node" in refused.output
    assert plane.files() == before


@pytest.mark.parametrize("plane", ["1.36"], indirect=True)
async def test_the_next_install_undoes_an_edit_that_a_reboot_interrupted(plane: ControlPlane) -> None:
    await plane.killed_half_way()
    await plane.node.reboot()
    assert not await plane.scheduler_runs(ours=False)
    back = await plane.run("install", REFUSED, "--wait=60")
    assert back.code == 1, back.output
    assert "kube-scheduler is healthy again" in back.output
    assert plane.manifest == plane.original
    await plane.place("after-reboot")


@pytest.mark.parametrize("plane", ["1.36"], indirect=True)
async def test_a_configuration_of_the_clusters_own_is_extended_and_read(plane: ControlPlane) -> None:
    own = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": f"{FOLDER}/scheduler.conf"},
        "parallelism": 7,
    }
    path = f"{FOLDER}/own.json"
    plane.node.path(path).write_text(json.dumps(own))
    static_scheduler.place_manifest(plane.node, with_own_configuration(plane.original, path))
    edited = await plane.run("install", "--kubernetes-version=1.36")
    assert edited.code == 0, edited.output
    assert json.loads(plane.node.path(CONFIGS["1.36"]).read_text())["parallelism"] == 7
    assert ANN_IDX in (await plane.place("extended"))["metadata"]["annotations"]


def with_own_configuration(manifest: str, path: str) -> str:
    pod = yaml.safe_load(manifest)
    (container,) = pod["spec"]["containers"]
    container["command"].append(f"--config={path}")
    container["volumeMounts"].append({"name": "own", "mountPath": path, "readOnly": True})
    pod["spec"]["volumes"].append({"name": "own", "hostPath": {"path": path, "type": "File"}})
    return str(yaml.safe_dump(pod))
