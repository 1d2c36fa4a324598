"""The edited static pod's own command line, run with the real kube-scheduler of its version.

There is no kubelet for the control plane here: the test plays it, and finds the pod's paths under a folder.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from gpushare.cli.scheduler_manifest import command as scheduler_manifest
from gpushare.contract import ANN_IDX
from testbed import Bed, Card, SchedulerSpec, SimNode, Testbed, build, gpu_pod, until
from testbed.extender import ExtenderSpec, grant, start_extender
from testbed.ports import free_ports
from tests.support import kubeadm

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]
MANIFEST = "etc/kubernetes/manifests/kube-scheduler.yaml"
TOOLS = {"1.22": "kube-scheduler-1.22", "1.36": "kube-scheduler"}
# The API server here is a later one, and does not serve what 1.22 would watch with that feature.
FLAGS = {"1.22": ["--feature-gates=CSIStorageCapacity=false"], "1.36": []}


def control_plane_node(bed: Bed, root: Path, version: str, *flags: str) -> None:
    """What kubeadm leaves on it."""
    (root / MANIFEST).parent.mkdir(parents=True)
    (root / MANIFEST).write_text(kubeadm.scheduler(version, *flags))
    kubeconfig = bed.kubeconfig_for("system:kube-scheduler").read_bytes()
    (root / "etc/kubernetes/scheduler.conf").write_bytes(kubeconfig)


def install(root: Path, url: str) -> None:
    result = CliRunner().invoke(scheduler_manifest, ["install", f"--root={root}", f"--url={url}"])
    assert result.exit_code == 0, result.output


def pod_command(root: Path, program: Path) -> list[str]:
    """The container's words with the node's files where they are, on a free port."""
    for file in (root / "etc/kubernetes/gpushare").iterdir():
        file.write_text(file.read_text().replace("/etc/kubernetes", f"{root}/etc/kubernetes"))
    pod: dict[str, Any] = yaml.safe_load((root / MANIFEST).read_text())
    words = pod["spec"]["containers"][0]["command"][1:]
    moved = [word.replace("/etc/kubernetes", f"{root}/etc/kubernetes") for word in words]
    return [str(program), *moved, f"--secure-port={free_ports(1)[0]}"]


@pytest.mark.parametrize("version", TOOLS)
async def test_kube_scheduler_binds_through_the_extender_after_the_edit(tmp_path: Path, version: str) -> None:
    async with Testbed(scheduler=SchedulerSpec(None)) as bed:
        spec = ExtenderSpec()
        await grant(bed)
        await start_extender(bed, spec)
        control_plane_node(bed, tmp_path, version, *FLAGS[version])
        install(tmp_path, spec.url)
        tool = (await build.ensure([TOOLS[version]]))[TOOLS[version]]
        process = await bed.spawn("static-pod", pod_command(tmp_path, tool.path))
        await bed.add_nodes([SimNode("n", [Card()])])
        await bed.create_pods([gpu_pod("p", 4)])

        async def bound() -> bool:
            pod = await bed.api.get("/api/v1/namespaces/default/pods/p")
            return pod["spec"].get("nodeName") == "n" and ANN_IDX in pod["metadata"].get("annotations", {})

        await until(bound, "the pod to be bound through the extender")
        log = process.command.log.read_text()
        assert "unknown field" not in log
        assert "unknown flag" not in log


async def test_kube_scheduler_reads_a_configuration_of_the_clusters_own_with_the_extender_in_it(
    tmp_path: Path,
) -> None:
    async with Testbed(kwok=False, scheduler=SchedulerSpec(None)) as bed:
        control_plane_node(bed, tmp_path, "1.36", "--config=/etc/kubernetes/own.json")
        own = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": "/etc/kubernetes/scheduler.conf"},
            "parallelism": 7,
        }
        (tmp_path / "etc/kubernetes/own.json").write_text(json.dumps(own))
        install(tmp_path, "http://127.0.0.1:1/gpushare-scheduler")
        tool = (await build.ensure(["kube-scheduler"]))["kube-scheduler"]
        shown = tmp_path / "shown.yaml"
        process = await bed.spawn(
            "static-pod", [*pod_command(tmp_path, tool.path), f"--write-config-to={shown}"]
        )

        async def written() -> bool:
            return shown.exists() and "extenders" in shown.read_text()

        await until(written, f"kube-scheduler to show its configuration: {process.command.log}")
        document = yaml.safe_load(shown.read_text())
        assert document["parallelism"] == 7
        assert [each["bindVerb"] for each in document["extenders"]] == ["bind"]
