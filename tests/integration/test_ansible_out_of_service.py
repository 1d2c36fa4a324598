"""Playbooks that cordon nodes, with the shipped inventory and defaults, by the documented commands.

The tests are the life of two GPU nodes: the first driver, upgrades that fail, are killed and succeed, and a
rollback. The hosts have systemd, SSH and apt, and really reboot. The node objects are simulated, because
containers do not start in such hosts.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from devkit.process import run_text
from testbed import SLOW_DELETE, SimGpu, SimNode, Testbed, gpu_pod, until
from testbed.hosts import HOSTS, Lab
from testbed.hosts.files import machine_id
from tests.support.builders import example_inventory
from tests.support.fixtures import playbooks
from tests.support.fixtures.gpu_hosts import GPU_NODES, GpuHosts

pytestmark = [
    pytest.mark.needs("hosts", "playbooks"),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(1800),
]

OLD, SHIPPED, ABSENT = "535.183.01", "580.178.04", "580.1.1"
PODS = "/api/v1/namespaces/default/pods"
ANNOTATION = "gpushare.io/driver-change"
FORCE = '-e{"nvidia_driver_drain_force": true}'
"""Pods without a controller are evicted too."""


@dataclass(frozen=True)
class Cluster(GpuHosts):
    """Hosts, the API server with their node objects, and the inventory."""

    hosts: Path

    def command(self, playbook: str, *flags: str) -> list[str]:
        """The command that runs a playbook."""
        return example_inventory.command(self.hosts, playbook, *flags)

    async def play(self, playbook: str, *flags: str) -> playbooks.Run:
        """Run a playbook to its end."""
        return await playbooks.run(self.command(playbook, *flags), 1200)

    async def packages(self) -> list[str]:
        """All packages of each GPU node with their versions."""
        return [await self.lab.ssh(name, "dpkg-query --show") for name in GPU_NODES]

    async def run_pod(self, name: str, node: str, **more: Any) -> None:
        """Create a pod of a tenant on that node; return when it runs."""
        pod = gpu_pod(name, 4, nodeSelector={"kubernetes.io/hostname": node}, **more)
        await self.bed.create_pods([pod])

        async def runs() -> bool:
            pod = await self.bed.api.get(f"{PODS}/{name}")
            return bool(pod["status"].get("phase") == "Running")

        await until(runs, f"pod {name} to run", 60)

    async def pods(self) -> set[str]:
        """The names of the tenants' pods."""
        return {each["metadata"]["name"] for each in await self.bed.api.items(PODS)}

    async def stops_untouched(self, playbook: str, *flags: str) -> playbooks.Run:
        """Run a playbook that must fail and leave hosts, nodes and pods as they are."""
        before = await self.packages(), await self.cordoned(), await self.boots(), await self.pods()
        stopped = await self.play(playbook, *flags)
        assert stopped.code != 0, stopped.output
        assert before == (
            await self.packages(),
            await self.cordoned(),
            await self.boots(),
            await self.pods(),
        )
        return stopped

    async def report(self, name: str, **info: str) -> None:
        """Set IDs in the status of a node, as its kubelet does."""
        await self.bed.api.patch(f"/api/v1/nodes/{name}/status", {"status": {"nodeInfo": info}})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    async with Testbed() as bed, Lab(HOSTS) as lab:
        await bed.add_nodes(SimNode(name, [SimGpu()], machine_id=machine_id(name)) for name in GPU_NODES)
        folder = tmp_path_factory.mktemp("inventories") / "mine"
        yield Cluster(bed, lab, example_inventory.copy(folder, lab, bed.kubeconfig))


async def module_of(version: str, folder: Path) -> str:
    """An object file that modinfo reads as NVIDIA's module of that version, in base64."""
    source = f'static const char v[] __attribute__((section(".modinfo"), used)) = "version={version}";'
    made = folder / "nvidia.ko"
    return await run_text(["sh", "-c", f"cc -c -x c -o {made} - && base64 {made}"], 30, stdin=source)


async def test_a_driver_without_a_package_is_left_alone(cluster: Cluster, tmp_path: Path) -> None:
    folder = "/lib/modules/$(uname -r)"
    await cluster.lab.ssh(
        "gpu-2",
        f"mkdir -p {folder} && base64 -d >{folder}/nvidia.ko && touch {folder}/modules.order && depmod",
        stdin=await module_of("550.90.07", tmp_path),
    )
    stopped = await cluster.stops_untouched("nodes")
    await cluster.lab.ssh("gpu-2", f"rm -r {folder}")
    assert "gpu-2: driver 550.90.07 is on disk, but not from a package of this host" in stopped.text
    assert "nvidia_driver_state: unmanaged" in stopped.text


async def test_a_first_installation_of_the_driver_takes_no_node_out_of_service(cluster: Cluster) -> None:
    """``tests/e2e/test_install.py`` runs the other roles of the playbook too."""
    await cluster.run_pod("tenant", "gpu-1")
    boots = await cluster.boots()
    done = await cluster.play("nodes", "--tags=nvidia_driver", f"-envidia_driver_version={OLD}")
    assert done.code == 0, done.output
    assert "takes 0 of 2 GPU nodes out of service" in done.text
    assert await cluster.drivers() == [OLD, OLD]
    assert await cluster.boots() == boots
    assert await cluster.cordoned() == [False, False]
    assert await cluster.pods() == {"tenant"}


@pytest.mark.parametrize("playbook", ["nodes", "site"])
async def test_another_driver_in_the_inventory_stops_the_run_before_a_node_is_touched(
    cluster: Cluster, playbook: str
) -> None:
    stopped = await cluster.stops_untouched(playbook)
    assert "Playbook upgrade_driver drains" in stopped.text
    for name in GPU_NODES:
        assert f"{name}: {OLD} is installed and {SHIPPED} is requested" in stopped.text
    assert set(stopped.changed.values()) == {0}


async def test_a_branch_that_does_not_serve_one_gpu_stops_the_run_for_all(cluster: Cluster) -> None:
    """gpu-1 has a T4, gpu-2 has V100."""
    stopped = await cluster.stops_untouched("upgrade_driver", FORCE, "-envidia_driver_version=615.71.09")
    assert (
        "gpu-2: branch 615 does not serve Tesla V100 PCIe 32GB (Volta), whose last branch is 580"
        in stopped.text
    )
    assert "gpu-1: branch 615" not in stopped.text
    assert "PLAY [Upgrade the driver]" not in stopped.output


async def test_an_upgrade_that_fails_on_one_node_leaves_the_others_alone(cluster: Cluster) -> None:
    refused = await cluster.play("upgrade_driver", FORCE, f"-envidia_driver_version={ABSENT}")
    assert refused.code != 0
    assert f"{ABSENT}, available are" in refused.text
    upgrade = refused.output.partition("PLAY [Upgrade the driver]")[2]
    assert "[gpu-1]" in upgrade
    assert "[gpu-2]" not in upgrade
    assert await cluster.cordoned() == [False, False]


async def test_a_drain_that_times_out_uncordons_the_node(cluster: Cluster) -> None:
    await cluster.run_pod("slow", "gpu-2", annotations={SLOW_DELETE: "true"})
    short = '-e{"nvidia_driver_drain_timeout": 3}'
    stopped = await cluster.stops_untouched("upgrade_driver", FORCE, short, "--limit=gpu-2")
    assert "these pods of node gpu-2 are not gone after 3 s: default/slow" in stopped.text
    assert "the node is schedulable again" in stopped.text
    node = await cluster.bed.api.get("/api/v1/nodes/gpu-2")
    assert ANNOTATION not in node["metadata"]["annotations"]


async def test_a_node_returns_only_when_its_kubelet_has_reported_after_the_reboot(cluster: Cluster) -> None:
    await cluster.bed.api.patch(f"{PODS}/slow", {"metadata": {"annotations": {SLOW_DELETE: None}}})

    async def gone() -> bool:
        return await cluster.pods() == {"tenant"}

    await until(gone, "the pod on gpu-2 to go", 60)
    await cluster.report("gpu-2", bootID="before")
    # It limits the boot too.
    soon = '-e{"nvidia_driver_reboot_timeout": 45}'
    stopped = await cluster.play("upgrade_driver", "--limit=gpu-2", soon)
    assert stopped.code != 0
    assert "the kubelet of node gpu-2 has not reported since the reboot" in stopped.text
    assert await cluster.drivers() == [OLD, SHIPPED]
    assert await cluster.cordoned() == [False, True]

    boot = await cluster.lab.ssh("gpu-2", "cat /proc/sys/kernel/random/boot_id")
    await cluster.report("gpu-2", bootID=boot.strip())
    returned = await cluster.play("upgrade_driver", "--limit=gpu-2")
    assert returned.code == 0, returned.output
    assert await cluster.cordoned() == [False, False]


async def test_the_next_upgrade_completes_one_that_was_killed(cluster: Cluster) -> None:
    """``tests/e2e/test_install.py`` upgrades two nodes, one after the other."""
    upgrade = ("upgrade_driver", FORCE, "--limit=gpu-1")
    boots = await cluster.boots()
    await playbooks.kill_at(cluster.command(*upgrade), "Install the packages with apt")
    # What the host had begun goes on, and has the locks of apt and dpkg.
    await cluster.lab.ssh("gpu-1", "while pgrep -f '[A]nsiballZ_apt|^apt-get|^dpkg'; do sleep 0.2; done", 120)
    assert await cluster.cordoned() == [True, False]
    assert await cluster.pods() == set()

    upgraded = await cluster.play(*upgrade)
    assert upgraded.code == 0, upgraded.output
    assert await cluster.drivers() == [SHIPPED, SHIPPED]
    assert [new == old for new, old in zip(await cluster.boots(), boots, strict=True)] == [False, True]
    assert await cluster.cordoned() == [False, False]


async def test_a_rollback_installs_the_old_driver_and_leaves_the_cordon_of_others(cluster: Cluster) -> None:
    # An interrupted run had cordoned gpu-1; an administrator uncordoned it, and cordoned it again.
    await cluster.bed.api.patch("/api/v1/nodes/gpu-1", {"metadata": {"annotations": {ANNOTATION: OLD}}})
    await cluster.bed.kubectl("cordon", "gpu-1")
    rolled = await cluster.play("rollback", "--limit=gpu-1")
    assert rolled.code == 0, rolled.output
    assert await cluster.drivers() == [OLD, SHIPPED]
    assert await cluster.cordoned() == [True, False]
