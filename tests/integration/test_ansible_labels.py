"""The role node_labels and the playbook switch_mode on a real API server, with pods that start and end."""

import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio
import yaml

from gpushare import contract
from gpushare.adapters.kube.client import KubeClient
from gpushare.adapters.kube.config import load_access
from testbed import Bed, SimGpu, SimNode, gpu_pod, until
from testbed.control_plane.api import Object
from tests.support.fixtures import playbooks

pytestmark = [pytest.mark.needs("playbooks"), pytest.mark.asyncio(loop_scope="module")]

NODE = "/api/v1/nodes/gpu-1"
PODS = "/api/v1/namespaces/default/pods"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
SWITCHING = "gpushare.io/switching"
TAINT = {"key": contract.RESOURCE_WHOLE_GPU, "value": "present", "effect": "NoSchedule"}
MACHINE_ID = Path("/etc/machine-id").read_text().strip()
PLUGIN = "apiVersion: v1\nkind: Pod\nmetadata: {name: nvidia-device-plugin}\n"


@dataclass(frozen=True)
class Cluster:
    """A bed with the node gpu-1; ``folder`` has the files of its host."""

    bed: Bed
    folder: Path

    def argv(self, variables: dict[str, Any], *flags: str) -> list[str]:
        """The command that runs the role."""
        paths = {"plugin_manifest": self.file("manifests"), "plugin_backup": self.file("backup")}
        fixed = {"kubeconfig": self.bed.kubeconfig, "cards": [{"model": "Tesla T4", "mib": 15360}], **paths}
        named = {f"node_labels_{name}": each for name, each in {**fixed, **variables}.items()}
        plain = json.loads(json.dumps(named, default=str))
        return [*playbooks.role(self.folder, "node_labels", "gpu-1", plain), *flags]

    def playbook(self, name: str, *flags: str) -> list[str]:
        """The command of a playbook, with the node in its inventory."""
        argv = self.argv({})[:-1]
        variables = json.loads((self.folder / "node_labels.json").read_text())[0]["tasks"][0]["vars"]
        inventory = json.loads((self.folder / "hosts.json").read_text())
        inventory["all"]["children"] = {"gpu_nodes": {"hosts": {"gpu-1": None}, "vars": variables}}
        (self.folder / "hosts.json").write_text(json.dumps(inventory))
        return [*argv, str(playbooks.ROOT / f"ansible/playbooks/{name}.yml"), *flags]

    async def run(self, *flags: str, **variables: Any) -> playbooks.Run:
        """Run the role with these variables, given without their prefix."""
        return await playbooks.run(self.argv(variables, *flags))

    def file(self, folder: str) -> Path:
        """The path of the manifest of NVIDIA's plugin, in ``manifests`` or ``backup``."""
        return self.folder / folder / "nvidia-device-plugin.yml"

    async def share_node(self) -> None:
        """Give node and host the labels and files after a run that shares: a start without a run."""
        labels = dict.fromkeys((contract.LABEL_GPUSHARE, contract.LABEL_CGPU), "true")
        await self.bed.api.patch(NODE, {"metadata": {"labels": labels}})
        self.file("backup").parent.mkdir()
        self.file("manifests").rename(self.file("backup"))

    async def node(self) -> Object:
        """The node's object."""
        return await self.bed.api.get(NODE)

    async def labels(self, *keys: str) -> list[str | None]:
        """Values of labels of the node."""
        found = (await self.node())["metadata"]["labels"]
        return [found.get(key) for key in keys]

    async def pods(self) -> set[str]:
        """The names of the pods on the node, up to the first dash."""
        listed = await self.bed.api.items(PODS, fieldSelector="spec.nodeName=gpu-1")
        return {each["metadata"]["name"].partition("-")[0] for each in listed}

    async def deploy(self, name: str, limits: dict[str, str]) -> None:
        """Create a Deployment with one pod; return when it runs on the node."""
        template = {
            "metadata": {"labels": {"app": name}},
            "spec": {"containers": [{"name": "main", "image": "i", "resources": {"limits": limits}}]},
        }
        spec = {"selector": {"matchLabels": {"app": name}}, "template": template}
        path = "/apis/apps/v1/namespaces/default/deployments"
        await self.bed.api.create(path, {"metadata": {"name": name}, "spec": spec})

        async def runs() -> bool:
            pods = await self.bed.api.items(PODS, fieldSelector="spec.nodeName=gpu-1,status.phase=Running")
            return any(each["metadata"]["labels"].get("app") == name for each in pods)

        await until(runs, f"a pod of {name} to run", 60)


@pytest_asyncio.fixture(loop_scope="module")
async def cluster(shared_bed: Bed, tmp_path: Path) -> AsyncIterator[Cluster]:
    made = Cluster(shared_bed, tmp_path)
    made.file("manifests").parent.mkdir()
    made.file("manifests").write_text(PLUGIN)
    await shared_bed.add_nodes([SimNode("gpu-1", [SimGpu()], machine_id=MACHINE_ID)])
    yield made
    for name in [each["metadata"]["name"] for each in await shared_bed.api.items(BUDGETS)]:
        await shared_bed.api.delete(f"{BUDGETS}/{name}")
    await shared_bed.kubectl("delete", "deployments,daemonsets,pods", "--all", "--grace-period=0", "--force")
    await shared_bed.delete_node("gpu-1")


async def test_a_node_gets_its_labels_and_taints_and_a_second_run_changes_nothing(cluster: Cluster) -> None:
    start = {"labels": {contract.LABEL_MODE: "default"}, "annotations": {contract.ANN_CARDS: None}}
    await cluster.bed.api.patch(NODE, {"metadata": start})
    wanted = {"taints": [TAINT], "placement": "binpack", "more": {"pool": "a"}}
    before = await cluster.node()
    shown = await cluster.run("--check", "--diff", **wanted)
    assert shown.code == 0, shown.output
    assert "+ cgpu: 'true'" in shown.text
    assert ours(await cluster.node()) == ours(before)

    first = await cluster.run(**wanted)
    assert first.code == 0, first.output
    keys = (contract.LABEL_GPUSHARE, contract.LABEL_CGPU, contract.LABEL_MODE, contract.LABEL_PLACEMENT)
    assert await cluster.labels(*keys, "pool") == ["true", "true", None, "binpack", "a"]
    cards = (contract.LABEL_CARD_MODEL, contract.LABEL_CARD_MIB, contract.LABEL_CARD_COUNT)
    assert await cluster.labels(*cards) == ["Tesla-T4", "15360MiB", "1"]
    spec = (await cluster.node())["spec"]
    assert TAINT in spec["taints"]
    assert "unschedulable" not in spec

    assert (await cluster.run(**wanted)).changed == {"gpu-1": 0}
    gone = await cluster.run(removed_taints=[TAINT["key"]])
    assert gone.changed == {"gpu-1": 1}
    assert TAINT not in (await cluster.node())["spec"].get("taints", [])


async def test_labels_of_a_node_agent_are_not_overwritten(cluster: Cluster) -> None:
    metadata = {"annotations": {contract.ANN_CARDS: "[]"}, "labels": {contract.LABEL_CARD_MIB: "15079MiB"}}
    await cluster.bed.api.patch(NODE, {"metadata": metadata})
    assert (await cluster.run()).code == 0
    assert await cluster.labels(contract.LABEL_CARD_MIB) == ["15079MiB"]


async def test_a_switch_drains_gpu_pods_and_moves_the_plugins_manifest_there_and_back(
    cluster: Cluster,
) -> None:
    first = await cluster.run()
    assert first.code == 0, first.output
    assert not cluster.file("manifests").exists()
    assert cluster.file("backup").read_text() == PLUGIN
    await cluster.deploy("shared", {contract.RESOURCE_MEM: "2"})
    await cluster.deploy("plain", {"cpu": "1m"})

    rehearsal = await cluster.run("--check", mode="whole")
    assert rehearsal.code == 0, rehearsal.output
    assert await cluster.pods() == {"shared", "plain"}
    assert await cluster.labels(contract.LABEL_CGPU) == ["true"]

    switched = await cluster.run(mode="whole")
    assert switched.code == 0, switched.output
    assert await cluster.labels(contract.LABEL_GPUSHARE, contract.LABEL_CGPU) == ["false", "false"]
    node = await cluster.node()
    assert "unschedulable" not in node["spec"]
    assert SWITCHING not in node["metadata"].get("annotations", {})
    assert "gpu-1: evicted default/shared-" in switched.text
    assert "default/plain" not in switched.text
    assert cluster.file("manifests").read_text() == PLUGIN
    assert not cluster.file("backup").exists()
    assert (await cluster.run(mode="whole")).changed == {"gpu-1": 0}


PLUGIN_LABEL = contract.LABEL_OPERATOR_PLUGIN
DAEMON_SETS = "/apis/apps/v1/namespaces/default/daemonsets"


async def run_plugin(cluster: Cluster, pod: Object) -> None:
    """Run a DaemonSet in place of NVIDIA's plugin, with these fields of its pod; return when it runs."""
    marks = {"matchLabels": {"app": "nvidia"}}
    template = {"metadata": {"labels": {"app": "nvidia"}}}
    spec = {**pod, "containers": [{"name": "plugin", "image": "nvcr.io/nvidia/k8s-device-plugin:v0"}]}
    body = {
        "metadata": {"name": "nvidia"},
        "spec": {"selector": marks, "template": {**template, "spec": spec}},
    }
    await cluster.bed.api.create(DAEMON_SETS, body)
    await plugin_runs(cluster, runs=True)


async def plugin_runs(cluster: Cluster, *, runs: bool) -> None:
    """Wait until the plugin runs on the node, or has left it."""

    async def done() -> bool:
        return ("nvidia" in await cluster.pods()) is runs

    await until(done, f"the plugin on gpu-1: {runs}", 60)


async def operator_state(cluster: Cluster) -> tuple[str | None, str | None]:
    """The label of the operator's plugin and the annotation with its former value."""
    metadata = (await cluster.node())["metadata"]
    found = metadata.get("annotations", {}).get(contract.ANN_OPERATOR_PLUGIN)
    return metadata["labels"].get(PLUGIN_LABEL), found


async def test_the_plugin_of_the_operator_leaves_a_node_that_is_shared_and_returns(cluster: Cluster) -> None:
    labels = {PLUGIN_LABEL: "true", "nvidia.com/gpu.deploy.driver": "true"}
    await cluster.bed.api.patch(NODE, {"metadata": {"labels": labels}})
    await run_plugin(cluster, {"nodeSelector": {PLUGIN_LABEL: "true"}})

    shared = await cluster.run()
    assert shared.code == 0, shared.output
    assert await operator_state(cluster) == ("false", "true")
    await plugin_runs(cluster, runs=False)
    assert (await cluster.run()).changed == {"gpu-1": 0}

    whole = await cluster.run(mode="whole")
    assert whole.code == 0, whole.output
    assert await operator_state(cluster) == ("true", None)
    await plugin_runs(cluster, runs=True)


async def test_a_node_whose_driver_the_operator_changes_is_not_shared(cluster: Cluster) -> None:
    labels = {PLUGIN_LABEL: "paused-for-driver-upgrade", contract.LABEL_CGPU: "false"}
    await cluster.bed.api.patch(NODE, {"metadata": {"labels": labels}})
    before = ours(await cluster.node())
    refused = await cluster.run()
    assert refused.code != 0
    assert f"(label {PLUGIN_LABEL}=paused-for-driver-upgrade): wait" in refused.text
    assert ours(await cluster.node()) == before


async def test_the_documented_affinity_keeps_a_plain_plugin_off_nodes_that_share(cluster: Cluster) -> None:
    page = (playbooks.ROOT / "docs/how-to/gpu-operator.md").read_text()
    (block,) = re.findall(r"```yaml\n(# not-shared\.yaml\n.*?)```", page, re.DOTALL)
    await cluster.run(mode="whole")
    await run_plugin(cluster, yaml.safe_load(block)["spec"]["template"]["spec"])
    assert (await cluster.run()).code == 0
    await plugin_runs(cluster, runs=False)
    assert (await cluster.run(mode="whole")).code == 0
    await plugin_runs(cluster, runs=True)


async def test_the_playbook_switches_the_listed_hosts_and_requires_a_mode(cluster: Cluster) -> None:
    silent = await playbooks.run(cluster.playbook("switch_mode"))
    assert silent.code != 0
    assert "node_labels_mode is not set; use -e" in silent.text
    wrong = await playbooks.run(cluster.playbook("switch_mode", "-e", "node_labels_mode=shared"))
    assert wrong.code != 0
    assert "node_labels_mode" in wrong.text

    switched = await playbooks.run(cluster.playbook("switch_mode", "-e", "node_labels_mode=share"))
    assert switched.code == 0, switched.output
    assert await cluster.labels(contract.LABEL_CGPU) == ["true"]
    assert cluster.file("backup").exists()


async def test_the_playbook_nodes_evicts_no_pod(cluster: Cluster) -> None:
    await cluster.share_node()
    await cluster.deploy("shared", {contract.RESOURCE_MEM: "2"})
    before = ours(await cluster.node())
    whole = cluster.playbook("nodes", "--tags=node_labels", "-e", "node_labels_mode=whole")
    refused = await playbooks.run(whole)
    assert refused.code != 0
    assert "pods use its GPUs (default/shared-" in refused.text
    assert "Playbook switch_mode with --limit gpu-1 -e node_labels_mode=whole evicts them" in refused.text
    assert ours(await cluster.node()) == before
    assert cluster.file("backup").exists()

    assert (await cluster.run(mode="whole")).code == 0
    whole = cluster.playbook("nodes", "--tags=node_labels", "-e", "node_labels_mode=whole")
    done = await playbooks.run(whole)
    assert done.code == 0, done.output


async def test_a_node_that_was_cordoned_before_stays_so(cluster: Cluster) -> None:
    await cluster.bed.api.patch(NODE, {"spec": {"unschedulable": True}})
    assert (await cluster.run()).code == 0
    assert (await cluster.node())["spec"]["unschedulable"] is True
    assert await cluster.labels(contract.LABEL_CGPU) == ["true"]


async def test_a_node_cordoned_by_an_administrator_after_an_interrupted_run_stays_cordoned(
    cluster: Cluster,
) -> None:
    await cluster.bed.api.patch(NODE, {"metadata": {"annotations": {SWITCHING: "share"}}})
    await cluster.bed.kubectl("cordon", "gpu-1")
    done = await cluster.run()
    assert done.code == 0, done.output
    node = await cluster.node()
    assert node["spec"]["unschedulable"] is True
    assert SWITCHING not in node["metadata"].get("annotations", {})


async def test_a_node_object_of_another_machine_is_not_changed(cluster: Cluster) -> None:
    before = await cluster.node()
    await cluster.bed.api.patch(f"{NODE}/status", {"status": {"nodeInfo": {"machineID": "0" * 32}}})
    refused = await cluster.run()
    assert refused.code != 0
    assert "node gpu-1 of the cluster of context testbed" in refused.text
    assert (
        f"is another machine than this host: machine ID {'0' * 32} there, {MACHINE_ID} here" in refused.text
    )
    assert ours(await cluster.node()) == ours(before)


def ours(node: Object) -> Object:
    """The parts of the node that the role can change; the controller manager adds labels at any time."""
    theirs = ("beta.kubernetes.io/", "kubernetes.io/")
    labels = {key: value for key, value in node["metadata"]["labels"].items() if not key.startswith(theirs)}
    return {"labels": labels, "spec": node["spec"]}


async def test_a_disruption_budget_is_respected_and_the_next_run_finishes_a_killed_one(
    cluster: Cluster,
) -> None:
    await cluster.share_node()
    await cluster.deploy("shared", {contract.RESOURCE_MEM: "2"})
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "shared"}}}
    await cluster.bed.api.create(BUDGETS, {"metadata": {"name": "keep"}, "spec": spec})

    held = await cluster.run(mode="whole", drain_s=3)
    assert held.code != 0
    assert "not gone after 3 s: default/shared-" in held.text
    assert "disruption budget" in held.text
    assert "The node's mode was not changed, and it is schedulable again" in held.text
    node = await cluster.node()
    assert "unschedulable" not in node["spec"]
    assert SWITCHING not in node["metadata"].get("annotations", {})
    assert node["metadata"]["labels"][contract.LABEL_CGPU] == "true"

    process = await playbooks.start(cluster.argv({"mode": "whole"}))
    await until(lambda: tries(process), "the run to wait for the budget", 60)
    playbooks.kill(process)
    await process.communicate()
    await is_half_way(cluster)

    await cluster.bed.api.delete(f"{BUDGETS}/keep")
    done = await cluster.run(mode="whole")
    assert done.code == 0, done.output
    assert await cluster.labels(contract.LABEL_CGPU) == ["false"]
    assert "unschedulable" not in (await cluster.node())["spec"]


async def is_half_way(cluster: Cluster) -> None:
    node = await cluster.node()
    assert node["spec"]["unschedulable"] is True
    assert node["metadata"]["annotations"][SWITCHING] == "whole"
    assert node["metadata"]["labels"][contract.LABEL_CGPU] == "true"


async def tries(process: Any) -> bool:
    line: bytes = await process.stdout.readline()
    return b"Evict the pods that use GPUs" in line


DEEPEST = 9995
"""Levels of ``fieldsV1`` in an object with 10,000 levels, the limit of the API server."""


async def create_nested_pod(bed: Bed) -> None:
    """Create a pod on the node as a tenant may, whose ``managedFields`` Python cannot decode."""
    await bed.create_namespace("tenant")
    fields = msgspec.Raw(b'{"f:a":' * DEEPEST + b"{}" + b"}" * DEEPEST)
    manager = {"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"}
    pod = gpu_pod("nested", 1, namespace="tenant", nodeName="gpu-1")
    pod["metadata"]["managedFields"] = [{**manager, "fieldsV1": fields}]
    async with KubeClient(await load_access(str(bed.kubeconfig))) as client:
        await client.request("POST", "/api/v1/namespaces/tenant/pods", timeout_s=10, body=pod)


async def test_unmanaged_pods_are_evicted_only_with_force(cluster: Cluster) -> None:
    await cluster.share_node()
    await cluster.bed.create_pods([gpu_pod("alone", 2)])
    await create_nested_pod(cluster.bed)

    async def runs() -> bool:
        return "alone" in await cluster.pods()

    await until(runs, "the pod to be bound", 60)
    refused = await cluster.run(mode="whole")
    assert refused.code != 0
    assert "have no controller and would not be recreated: default/alone, tenant/nested;" in refused.text
    assert (await cluster.run(mode="whole", force=True)).code == 0
    assert await cluster.pods() == set()


async def test_a_host_that_is_not_a_node_is_an_error(cluster: Cluster) -> None:
    reported = await cluster.run(node="absent")
    assert reported.code != 0
    assert "has no node absent; set node_labels_node" in reported.text
