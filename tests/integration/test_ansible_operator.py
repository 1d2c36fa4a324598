"""The commands of the page "Use the GPU Operator beside gpushare", and its variant of the page "Install".

The hosts have systemd and SSH, and files of the operator's driver and toolkit where the operator puts them.
The API server, scheduler and controllers are real; a DaemonSet with the node selector of the operator stands
for its device plugin. Not real: the nodes, which are simulated, and the operator itself. Its images cannot be
had here, so the commands of Helm do not run.
"""

import shlex
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio

from gpushare import contract
from testbed import Bed, SimGpu, SimNode, Testbed, until
from testbed.hosts import HOSTS, Lab
from testbed.hosts.files import machine_id
from testbed.pulumi.programs import link
from tests.support.builders import example_inventory
from tests.support.fixtures import playbooks
from tests.support.fixtures.gpu_hosts import GPU_NODES
from tests.support.needs import PLAYBOOK
from tests.support.pages import Command, Written, steps, unmet

pytestmark = [
    pytest.mark.needs("hosts", "playbooks"),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(1800),
]

PAGES: Final = playbooks.ROOT / "docs/how-to"
PAGE = steps((PAGES / "gpu-operator.md").read_text())
INSTALL = steps((PAGES / "install.md").read_text())
NODE = "/api/v1/nodes/gpu-1"
PODS = "/api/v1/namespaces/default/pods"
PLUGIN_LABEL = contract.LABEL_OPERATOR_PLUGIN
OPERATED = {PLUGIN_LABEL: "true", "nvidia.com/gpu.deploy.driver": "true"}
TOOLKIT = "/usr/local/nvidia/toolkit"
DRIVER = "/run/nvidia/driver"
OPERATOR_FILES = {
    f"{TOOLKIT}/nvidia-container-runtime": "of the operator\n",
    f"{TOOLKIT}/.config/nvidia-container-runtime/config.toml": (
        "accept-nvidia-visible-devices-as-volume-mounts = true\n"
        "accept-nvidia-visible-devices-envvar-when-unprivileged = false\n"
    ),
    # /run is empty after each boot, and the driver is in a container of the operator then.
    "/etc/tmpfiles.d/operator.conf": f"f {DRIVER}/usr/bin/nvidia-smi 0755 root root - of the operator\n",
}
PLUGIN = f"""\
apiVersion: v1
kind: Namespace
metadata: {{name: gpu-operator}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {{name: nvidia-device-plugin-daemonset, namespace: gpu-operator}}
spec:
  selector: {{matchLabels: {{app: plugin}}}}
  template:
    metadata: {{labels: {{app: plugin}}}}
    spec:
      nodeSelector: {{{PLUGIN_LABEL}: "true"}}
      containers: [{{name: plugin, image: nvcr.io/nvidia/k8s-device-plugin:v0}}]
"""
WHOLE = f"""\
apiVersion: apps/v1
kind: Deployment
metadata: {{name: whole}}
spec:
  selector: {{matchLabels: {{app: whole}}}}
  template:
    metadata: {{labels: {{app: whole}}}}
    spec:
      nodeSelector: {{kubernetes.io/hostname: gpu-1, {PLUGIN_LABEL}: "true"}}
      containers: [{{name: main, image: i, resources: {{limits: {{nvidia.com/gpu: "1"}}}}}}]
"""


@dataclass(frozen=True)
class Cluster:
    """A checkout with the inventory of the hosts, and the cluster of their nodes."""

    bed: Bed
    checkout: Path
    programs: Path

    async def run(self, line: str) -> playbooks.Run:
        """Run a line of a page in a shell, in the checkout."""
        path = f"PATH={self.programs}:{PLAYBOOK.parent}:/usr/sbin:/usr/bin:/sbin:/bin"
        script = f"cd {shlex.quote(str(self.checkout))}\n{line}"
        argv = ["env", path, f"KUBECONFIG={self.bed.kubeconfig}", "bash", "-c", script]
        return await playbooks.run(argv, 1200)

    async def follow(self, commands: list[Command]) -> None:
        """Run commands that must work and print what their page shows."""
        for command in commands:
            done = await self.run(command.line)
            assert done.code == 0, done.output
            missing = unmet(command.expected, done.output)
            assert not missing, f"{command.line}: {missing!r} is not where the page has it:\n{done.output}"

    async def stops(self, command: Command) -> str:
        """Run a command that must fail and change no node; return its output."""
        before = await self.nodes()
        done = await self.run(command.line)
        assert done.code != 0, done.output
        assert await self.nodes() == before
        return done.text

    async def nodes(self) -> list[Any]:
        """What playbooks may change on each node."""
        found = [await self.bed.api.get(f"/api/v1/nodes/{name}") for name in GPU_NODES]
        return [(each["metadata"]["labels"], each["metadata"]["annotations"], each["spec"]) for each in found]

    async def labels(self) -> tuple[str | None, ...]:
        """Of gpu-1: of the operator's plugin, and of our mode."""
        labels = (await self.bed.api.get(NODE))["metadata"]["labels"]
        return tuple(labels.get(key) for key in (PLUGIN_LABEL, contract.LABEL_CGPU))

    async def until_plugins(self, *nodes: str) -> None:
        """Wait until the operator's plugin runs on exactly these nodes."""

        async def there() -> bool:
            pods = await self.bed.api.items("/api/v1/namespaces/gpu-operator/pods")
            return sorted(pod["spec"].get("nodeName", "") for pod in pods) == sorted(nodes)

        await until(there, f"the plugin on {nodes}", 60)

    async def until_whole(self, phase: str) -> None:
        """Wait until the pod with a whole GPU, which needs a node with the plugin, is in the phase."""

        async def there() -> bool:
            return [pod["status"].get("phase") for pod in await self.bed.api.items(PODS)] == [phase]

        await until(there, f"the pod with a whole GPU to be {phase}", 60)


def commands(section: str, program: str, page: list[Command | Written] = PAGE) -> list[Command]:
    """The commands of a section that run this program."""
    found = [each for each in page if isinstance(each, Command) and each.section == section]
    chosen = [each for each in found if each.line.startswith(program)]
    assert chosen
    return chosen


def variant() -> Written:
    """The file of the inventory that leaves driver and toolkit to the operator."""
    (file,) = [each for each in PAGE if isinstance(each, Written) and each.path.endswith("operator.yml")]
    return file


def _node(name: str) -> SimNode:
    whole = {contract.RESOURCE_WHOLE_GPU: "1"}
    return SimNode(name, [SimGpu()], labels=OPERATED, allocatable=whole, machine_id=machine_id(name))


def _check_out(folder: Path) -> Path:
    """What the commands of the pages read of a checkout."""
    folder.mkdir()
    for name in ("ansible", "ansible.cfg", "ansible_collections"):
        (folder / name).symlink_to(playbooks.ROOT / name)
    (folder / "inventories").mkdir()
    return folder


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    folder = tmp_path_factory.mktemp("operator")
    hosts = (HOSTS[0], *(replace(each, files={**each.files, **OPERATOR_FILES}) for each in HOSTS[1:]))
    async with Testbed() as bed, Lab(hosts) as lab:
        await bed.add_nodes(_node(name) for name in GPU_NODES)
        await bed.kubectl("label", "node", *GPU_NODES, f"{contract.LABEL_GPUSHARE}-")
        await bed.apply(PLUGIN)
        checkout = _check_out(folder / "checkout")
        example_inventory.copy(checkout / "inventories/mine", lab, bed.kubeconfig)
        programs = link(folder / "bin", {"kubectl": bed.components.tools["kubectl"].path})
        made = Cluster(bed, checkout, programs)
        await made.until_plugins(*GPU_NODES)
        yield made


async def test_the_page_shows_which_plugin_a_node_has(cluster: Cluster) -> None:
    nodes, plugins, _event_of_the_agent = commands("What a node has", "kubectl")
    await cluster.follow([nodes, plugins])


async def test_a_node_is_shared_and_given_back_by_labels(cluster: Cluster) -> None:
    before = await cluster.nodes()
    await cluster.follow(commands("Share a node of the operator", "kubectl"))
    assert await cluster.labels() == ("false", "true")
    await cluster.until_plugins("gpu-2")
    await cluster.follow(commands("Give a node back", "kubectl"))
    await cluster.until_plugins(*GPU_NODES)

    async def unchanged() -> bool:
        return await cluster.nodes() == before

    # The controller manager removes the taint of a cordon a moment after it.
    await until(unchanged, "the nodes to be as before", 60)


async def test_without_the_settings_of_the_page_nothing_is_installed(cluster: Cluster) -> None:
    (preflight,) = commands("2. Inventory", "ansible-playbook", INSTALL)
    *_, nodes = commands("3. Nodes", "ansible-playbook", INSTALL)
    for each in (preflight, nodes):
        text = await cluster.stops(each)
        assert "GPU Operator" in text
        assert "nvidia_driver_state" in text
    file = variant()
    _, driver, *_ = file.text.splitlines()
    (cluster.checkout / file.path).write_text(driver)
    assert "Set container_runtime_state to unmanaged" in await cluster.stops(nodes)


async def test_a_node_is_shared_and_given_back_by_playbooks(cluster: Cluster) -> None:
    """In the order of both pages, beside a pod that has a whole GPU."""
    file = variant()
    (cluster.checkout / file.path).write_text(file.text)
    await cluster.bed.apply(WHOLE)
    await cluster.until_whole("Running")
    preflight, share = commands("Share a node of the operator", "ansible-playbook")
    check, nodes = commands("3. Nodes", "ansible-playbook", INSTALL)
    await cluster.follow([preflight])
    for each in (check, nodes):
        text = await cluster.stops(each)
        assert "pods use its GPUs (default/whole-" in text, text

    await cluster.follow([share])
    assert await cluster.labels() == ("false", "true")
    await cluster.until_plugins("gpu-2")
    await cluster.until_whole("Pending")

    (back,) = commands("Give a node back", "ansible-playbook")
    await cluster.follow([back])
    assert (await cluster.labels())[0] == "true"
    await cluster.until_plugins(*GPU_NODES)
    await cluster.until_whole("Running")
    assert "unschedulable" not in (await cluster.bed.api.get(NODE))["spec"]
