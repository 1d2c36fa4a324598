"""The whole way of a small cluster: playbooks site, upgrade_driver and rollback on real hosts and a real API.

The hosts have systemd, SSH and apt; API server and extender run beside them. The node objects are
simulated, because containers do not start in such hosts, and a part of this test starts the control
plane's static pod as a service: the program is the real kube-scheduler, without its container.
"""

import asyncio
import json
import shlex
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from gpushare.contract import ANN_IDX, LABEL_CGPU
from testbed import Bed, Card, SchedulerSpec, SimNode, Testbed, TestbedError, build, gpu_pod, until
from testbed.extender import ExtenderSpec, grant, start_extender
from tests.support import kubeadm, playbooks
from tests.support.hosts import HOSTS, Lab, needs

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(900)]

try:
    needs.look()
except TestbedError as reason:
    pytest.skip(str(reason), allow_module_level=True)
if not playbooks.PLAYBOOK.exists():
    pytest.skip(playbooks.MISSING, allow_module_level=True)

API = "192.0.2.1"
MANIFEST = "/etc/kubernetes/manifests/kube-scheduler.yaml"
SCHEDULER = "/usr/local/bin/kube-scheduler"
SERVICE = "static-kube-scheduler"
OLD, NEW = "535.183.01", "580.65.06"
PODS = "/api/v1/namespaces/default/pods"


@dataclass(frozen=True)
class Cluster:
    """Hosts, API server and extender."""

    bed: Bed
    lab: Lab
    folder: Path
    extender: ExtenderSpec

    async def play(self, playbook: str, *flags: str, **more: Any) -> playbooks.Run:
        """Run a playbook with the lab's inventory."""
        variables = self.folder / "variables.json"
        variables.write_text(json.dumps({**self.variables, **more}))
        argv = [
            str(playbooks.PLAYBOOK),
            f"--inventory={self.lab.inventory}",
            f"--inventory={playbooks.ROOT}/inventories/lab/hosts.yml",
            f"--extra-vars=@{variables}",
            # It has a scenario of its own, with a real kubelet.
            "--skip-tags=kubelet_tuning",
            str(playbooks.ROOT / f"ansible/playbooks/{playbook}.yml"),
        ]
        return await playbooks.run([*argv, *flags], 600)

    @property
    def variables(self) -> dict[str, Any]:
        """What an inventory would say of this cluster."""
        return {
            "node_labels_kubeconfig": str(self.bed.kubeconfig),
            "nvidia_driver_kubeconfig": str(self.bed.kubeconfig),
            "scheduler_extender_urls": [f"http://{API}:{self.extender.port}/gpushare-scheduler"],
            "scheduler_extender_settle_s": 3,
            "validate_kubeconfig": str(self.bed.kubeconfig),
            "validate_services": [],
        }

    async def drivers(self) -> set[str]:
        """The versions that the GPU nodes' own program tells."""
        asked = "nvidia-smi --query-gpu=driver_version"
        return {(await self.lab.ssh(name, asked)).split()[0] for name in ("gpu-1", "gpu-2")}

    async def boots(self) -> list[str]:
        """An identity of each GPU node's present boot."""
        asked = "cat /proc/sys/kernel/random/boot_id"
        return [await self.lab.ssh(name, asked) for name in ("gpu-1", "gpu-2")]

    async def node(self, name: str) -> dict[str, Any]:
        """A node's object."""
        return await self.bed.api.get(f"/api/v1/nodes/{name}")

    async def place(self, name: str) -> dict[str, Any]:
        """A pod of four units when it is bound."""
        await self.bed.create_pods([gpu_pod(name, 4)])

        async def bound() -> dict[str, Any] | None:
            pod = await self.bed.api.get(f"{PODS}/{name}")
            return pod if pod["spec"].get("nodeName") else None

        found = await until(bound, f"pod {name} to be bound", 60)
        assert found is not None
        await self.bed.api.delete(f"{PODS}/{name}", gracePeriodSeconds="0")
        return found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    program = (await build.ensure(["kube-scheduler"]))["kube-scheduler"].path
    control_plane = replace(HOSTS[0], binds={SCHEDULER: program})
    extender = ExtenderSpec()
    async with (
        Testbed(scheduler=SchedulerSpec(None)) as bed,
        Lab((control_plane, *HOSTS[1:])) as lab,
    ):
        await grant(bed)
        await start_extender(bed, extender)
        await bed.add_nodes([SimNode("gpu-1", [Card()]), SimNode("gpu-2", [Card(), Card()])])
        for port in (bed.layout.ports.apiserver, extender.port):
            await lab.expose(port)
        await install_control_plane(bed, lab)
        kubelet = asyncio.create_task(run_static_pod(lab))
        yield Cluster(bed, lab, tmp_path_factory.mktemp("site"), extender)
        kubelet.cancel()
        with suppress(asyncio.CancelledError):
            await kubelet


async def install_control_plane(bed: Bed, lab: Lab) -> None:
    """What kubeadm leaves on a host."""
    user = bed.kubeconfig_for("system:kube-scheduler")
    text = await bed.kubectl("config", "view", f"--kubeconfig={user}", "--flatten", "--raw")
    kubeconfig = text.replace("https://127.0.0.1", f"https://{API}")
    await lab.ssh("cp-1", f"mkdir -p {Path(MANIFEST).parent}")
    await lab.ssh("cp-1", "cat >/etc/kubernetes/scheduler.conf", stdin=kubeconfig)
    await lab.ssh("cp-1", f"cat >{MANIFEST}", stdin=kubeadm.scheduler("1.36"))


async def run_static_pod(lab: Lab) -> None:
    """Start the scheduler anew whenever its manifest is another, as the kubelet would."""
    started = ""
    while True:
        text = await lab.ssh("cp-1", f"cat {MANIFEST} 2>/dev/null || :")
        if text != started:
            started = text
            command = yaml.safe_load(text)["spec"]["containers"][0]["command"] if text else []
            stop = f"systemctl stop {SERVICE} 2>/dev/null; systemctl reset-failed {SERVICE} 2>/dev/null"
            start = f"systemd-run --quiet --unit={SERVICE} --property=Restart=always {shlex.join(command)}"
            await lab.ssh("cp-1", f"{stop}; {start if command else ':'}")
        await asyncio.sleep(0.5)


async def test_plain_hosts_become_gpu_sharing_nodes_and_the_scheduler_asks_the_extender(
    cluster: Cluster,
) -> None:
    labels = (await cluster.node("gpu-1"))["metadata"]["labels"]
    before = await cluster.play("site", "--check", "--diff", nvidia_driver_version=OLD)
    assert before.code == 0, before.output
    assert (await cluster.lab.ssh("cp-1", f"cat {MANIFEST}")) == kubeadm.scheduler("1.36")
    assert (await cluster.node("gpu-1"))["metadata"]["labels"] == labels
    assert (await cluster.lab.ssh("gpu-1", "ls /etc/apt/sources.list.d")) == ""

    first = await cluster.play("site", nvidia_driver_version=OLD)
    assert first.code == 0, first.output
    assert await cluster.drivers() == {OLD}
    for name in ("gpu-1", "gpu-2"):
        assert (await cluster.node(name))["metadata"]["labels"][LABEL_CGPU] == "true"
    assert ANN_IDX in (await cluster.place("shared"))["metadata"]["annotations"]

    again = await cluster.play("site", nvidia_driver_version=OLD)
    assert again.code == 0, again.output
    assert set(again.changed.values()) == {0}, again.output


async def test_an_upgrade_drains_and_reboots_each_node_and_a_rollback_brings_the_old_driver_back(
    cluster: Cluster,
) -> None:
    boots = await cluster.boots()
    upgraded = await cluster.play("upgrade_driver", nvidia_driver_version=NEW)
    assert upgraded.code == 0, upgraded.output
    assert await cluster.drivers() == {NEW}
    assert not set(boots) & set(await cluster.boots())
    for name in ("gpu-1", "gpu-2"):
        assert not (await cluster.node(name))["spec"].get("unschedulable")

    back = await cluster.play("rollback", nvidia_driver_version=NEW, nvidia_driver_reboot=True)
    assert back.code == 0, back.output
    assert await cluster.drivers() == {OLD}


async def test_the_control_plane_gets_its_own_scheduler_back(cluster: Cluster) -> None:
    back = await cluster.play("rollback", "--tags=scheduler_extender")
    assert back.code == 0, back.output
    assert (await cluster.lab.ssh("cp-1", f"cat {MANIFEST}")) == kubeadm.scheduler("1.36")
    assert await cluster.drivers() == {OLD}
