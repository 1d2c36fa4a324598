"""Playbooks nodes, upgrade_driver and rollback on real hosts, with the nodes of a real API server.

The hosts have systemd, SSH and apt, and really reboot. The node objects are simulated, because containers do
not start in such hosts.
"""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from testbed import Card, SimNode, Testbed, gpu_pod
from testbed.hosts import HOSTS, Lab
from testbed.hosts.files import machine_id
from tests.fixtures import playbooks
from tests.fixtures.gpu_hosts import GPU_NODES, GpuHosts
from tests.fixtures.gpu_nodes import PODS, bound
from tests.support import needs

pytestmark = [
    pytest.mark.integration,
    pytest.mark.needs("hosts", "playbooks"),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(1800),
]

OLD, NEW, ABSENT = "535.183.01", "580.65.06", "999.1.1"
ONLY_THE_DRIVER = "--tags=nvidia_driver"
ANNOTATION = "gpushare.io/driver-change"


@dataclass(frozen=True)
class Cluster(GpuHosts):
    """Hosts, and the API server with their node objects."""

    folder: Path

    def argv(self, playbook: str, version: str, *flags: str, **more: Any) -> list[str]:
        """The command that runs a playbook with the lab's inventory."""
        variables = self.folder / "variables.json"
        kubeconfig = str(self.bed.kubeconfig)
        asked = {
            "node_labels_kubeconfig": kubeconfig,
            "nvidia_driver_kubeconfig": kubeconfig,
            "nvidia_driver_drain_force": True,
            "nvidia_driver_version": version,
        }
        variables.write_text(json.dumps({**asked, **more}))
        return [
            str(needs.PLAYBOOK),
            f"--inventory={self.lab.inventory}",
            f"--inventory={playbooks.ROOT}/inventories/lab/hosts.yml",
            f"--extra-vars=@{variables}",
            # No kubelet runs here.
            "--skip-tags=kubelet_tuning",
            str(playbooks.ROOT / f"ansible/playbooks/{playbook}.yml"),
            *flags,
        ]

    async def play(self, playbook: str, version: str, *flags: str, **more: Any) -> playbooks.Run:
        """Run a playbook to its end."""
        return await playbooks.run(self.argv(playbook, version, *flags, **more), 600)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    async with (
        Testbed() as bed,
        Lab(tuple(host for host in HOSTS if host.name in GPU_NODES)) as lab,
    ):
        cards = {"gpu-1": [Card()], "gpu-2": [Card(), Card()]}
        await bed.add_nodes(SimNode(name, cards[name], machine_id=machine_id(name)) for name in GPU_NODES)
        yield Cluster(bed, lab, tmp_path_factory.mktemp("upgrade"))


async def test_plain_hosts_get_the_driver(cluster: Cluster) -> None:
    """``tests/e2e/test_install.py`` runs the other roles of the playbook too."""
    done = await cluster.play("nodes", OLD, ONLY_THE_DRIVER)
    assert done.code == 0, done.output
    assert await cluster.drivers() == [OLD, OLD]
    assert await cluster.cordoned() == [False, False]


async def test_an_upgrade_that_fails_on_one_node_leaves_the_others_alone(cluster: Cluster) -> None:
    refused = await cluster.play("upgrade_driver", ABSENT)
    assert refused.code != 0
    assert f"{ABSENT}, available are" in refused.text
    upgrade = refused.output.partition("PLAY [Upgrade the driver]")[2]
    assert "[gpu-1]" in upgrade
    assert "[gpu-2]" not in upgrade
    assert await cluster.cordoned() == [False, False]


async def test_the_next_upgrade_completes_one_that_was_killed(cluster: Cluster) -> None:
    boots = await cluster.boots()
    await cluster.bed.create_pods([gpu_pod("tenant", 4, nodeSelector={"kubernetes.io/hostname": "gpu-1"})])
    await bound(cluster.bed, "tenant", 60)
    await playbooks.kill_at(cluster.argv("upgrade_driver", NEW), "Install the packages with apt")
    # What the host had begun goes on, and has the locks of apt and dpkg.
    await cluster.lab.ssh("gpu-1", "while pgrep -f '[A]nsiballZ_apt|^apt-get|^dpkg'; do sleep 0.2; done", 120)
    assert await cluster.cordoned() == [True, False]
    assert not await cluster.bed.api.items(PODS)

    upgraded = await cluster.play("upgrade_driver", NEW)
    assert upgraded.code == 0, upgraded.output
    assert await cluster.drivers() == [NEW, NEW]
    assert not set(boots) & set(await cluster.boots())
    assert await cluster.cordoned() == [False, False]


async def test_a_rollback_installs_the_old_driver_and_leaves_the_cordon_of_others(
    cluster: Cluster,
) -> None:
    # An interrupted run had cordoned gpu-1; an administrator uncordoned it, and cordoned it again.
    await cluster.bed.api.patch("/api/v1/nodes/gpu-1", {"metadata": {"annotations": {ANNOTATION: OLD}}})
    await cluster.bed.kubectl("cordon", "gpu-1")
    rolled = await cluster.play("rollback", NEW, "--limit=gpu-1")
    assert rolled.code == 0, rolled.output
    assert await cluster.drivers() == [OLD, NEW]
    assert await cluster.cordoned() == [True, False]
