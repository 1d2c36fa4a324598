"""Three clusters with nodes of equal names in one kubeconfig: playbooks change that of their hosts, or none.

The clusters are real API servers, the hosts have systemd and SSH. No kubelet runs: the Node objects have the
machine IDs that kubelets would report.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from gpushare.contract import CLIENT_TLS_SECRET, LABEL_GPUSHARE
from testbed import Bed, SchedulerSpec, Testbed
from testbed.hosts import HOSTS, Lab
from testbed.hosts.files import machine_id
from tests.support.builders import example_inventory
from tests.support.fixtures import playbooks
from tests.support.fixtures.gpu_hosts import GPU_NODES
from tests.support.fixtures.static_scheduler import MANIFEST, original

pytestmark = [
    pytest.mark.needs("hosts", "playbooks"),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(1800),
]

CLUSTERS = ("north", "west", "south")
OWN, OTHERS = "west", ("north", "south")
"""The cluster of the hosts, and those with nodes of the same names."""
WRONG = OTHERS[1]
"""That of another cluster. It is not the current context: a playbook that ignored it would not name it."""
RUNS = (("nodes", ""), ("nodes", WRONG), ("site", ""), ("switch_mode", WRONG))
"""Playbooks with the contexts that an inventory may have by mistake: none, or ``WRONG``."""
SETTING = 'cluster_context: ""'
NODES = "/api/v1/nodes"
SECRETS = "/api/v1/namespaces/kube-system/secrets"
KEYS = dict.fromkeys(("ca.crt", "tls.crt", "tls.key"), "b3RoZXI=")
REBOOT_DUE = "/run/gpushare-nvidia-driver.reboot"
"""The record of a change of the driver, which a drain and a reboot complete."""
KEEP_NODES = "--controllers=*,-node-lifecycle-controller"
"""It would report that no kubelet runs."""
CERTIFICATE = "/etc/kubernetes/gpushare/tls.crt"
CONTROL_PLANE = {MANIFEST: original("1.36"), CERTIFICATE: "the one that the scheduler uses"}
LOOK = """
dpkg-query --show
cat /proc/sys/kernel/random/boot_id
find /etc -type f -exec sha256sum {} +
"""
"""The packages, boot and settings of a host."""


@dataclass(frozen=True)
class Fleet:
    """The clusters by context, the hosts of ``OWN``, and their inventory."""

    beds: dict[str, Bed]
    lab: Lab
    hosts: Path

    async def play(self, playbook: str, context: str, *flags: str) -> playbooks.Run:
        """Run a playbook with that ``cluster_context`` in the inventory."""
        file = self.hosts.parent / "group_vars/all/main.yml"
        shipped = (playbooks.ROOT / "inventories/example/group_vars/all/main.yml").read_text()
        assert shipped.count(SETTING) == 1
        file.write_text(shipped.replace(SETTING, f'cluster_context: "{context}"'))
        # As where kube-scheduler calls the extender.
        scheduler = ("-e", "scheduler_extender_state=present")
        mode = ("-e", "node_labels_mode=share") if playbook == "switch_mode" else scheduler
        return await playbooks.run(example_inventory.command(self.hosts, playbook, *mode, *flags), 1200)

    async def stops_untouched(self, playbook: str, context: str) -> playbooks.Run:
        """Run a playbook that must fail and change nothing anywhere."""
        before = await self.state()
        stopped = await self.play(playbook, context)
        assert stopped.code != 0, stopped.output
        assert await self.state() == before
        return stopped

    async def state(self) -> dict[str, Any]:
        """All that a playbook may change: nodes of all clusters, packages and boots of the hosts."""
        nodes = {name: await bed.api.items(NODES) for name, bed in self.beds.items()}
        return {**nodes, **{host.name: await self.lab.ssh(host.name, LOOK) for host in HOSTS}}


def kubeconfig(beds: dict[str, Bed]) -> dict[str, Any]:
    """One kubeconfig with a context for each cluster; the current one is not that of the hosts."""
    merged: dict[str, Any] = {"apiVersion": "v1", "kind": "Config", "current-context": OTHERS[0]}
    for name, bed in beds.items():
        own = yaml.safe_load(bed.kubeconfig.read_text())
        for part, entry in (("clusters", "cluster"), ("users", "user")):
            merged.setdefault(part, []).append({"name": name, entry: own[part][0][entry]})
        merged.setdefault("contexts", []).append({"name": name, "context": {"cluster": name, "user": name}})
    return merged


async def add_nodes(bed: Bed, cluster: str) -> None:
    """Nodes of the same names in each cluster; only those of ``OWN`` are the hosts."""
    await bed.api.create(SECRETS, {"metadata": {"name": CLIENT_TLS_SECRET}, "data": KEYS})
    for name in (host.name for host in HOSTS):
        identity = machine_id(name if cluster == OWN else f"{name} of {cluster}")
        await bed.api.create(NODES, {"metadata": {"name": name}})
        status = {"status": {"nodeInfo": {"machineID": identity}}}
        await bed.api.patch(f"{NODES}/{name}/status", status)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def fleet(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Fleet]:
    folder = tmp_path_factory.mktemp("fleet")
    async with AsyncExitStack() as stack:
        beds = {}
        for name in CLUSTERS:
            bed = Testbed(kwok=False, scheduler=SchedulerSpec(None), controller_flags=[KEEP_NODES])
            beds[name] = await stack.enter_async_context(bed)
            await add_nodes(beds[name], name)
        (folder / "config").write_text(yaml.safe_dump(kubeconfig(beds)))
        hosts = (replace(HOSTS[0], files=CONTROL_PLANE), *HOSTS[1:])
        lab = await stack.enter_async_context(Lab(hosts))
        yield Fleet(beds, lab, example_inventory.copy(folder / "mine", lab, folder / "config"))


def says(stopped: playbooks.Run, context: str, host: str = "gpu-1") -> bool:
    """Whether the output has the reason to stop."""
    if not context:
        return f"several contexts: {', '.join(CLUSTERS)} (current: {OTHERS[0]})" in stopped.text
    machines = f"machine ID {machine_id(f'{host} of {context}')} there, {machine_id(host)} here"
    return f"of context {context}" in stopped.text and machines in stopped.text


@pytest.mark.parametrize(("playbook", "context"), RUNS)
async def test_without_the_context_of_the_hosts_nothing_is_touched(
    fleet: Fleet, playbook: str, context: str
) -> None:
    stopped = await fleet.stops_untouched(playbook, context)
    assert says(stopped, context), stopped.output


async def test_no_scheduler_gets_the_certificate_of_another_cluster(fleet: Fleet) -> None:
    stopped = await fleet.stops_untouched("scheduler", WRONG)
    assert says(stopped, WRONG, "cp-1"), stopped.output


async def test_with_its_context_only_the_cluster_of_the_hosts_changes(fleet: Fleet) -> None:
    before = await fleet.state()
    done = await fleet.play("nodes", OWN, "--tags=node_labels")
    assert done.code == 0, done.output
    after = await fleet.state()
    assert {name: after[name] for name in OTHERS} == {name: before[name] for name in OTHERS}
    labels = {each["metadata"]["name"]: each["metadata"].get("labels", {}) for each in after[OWN]}
    assert {name: found.get(LABEL_GPUSHARE) for name, found in labels.items()} == {
        "cp-1": None,
        "gpu-1": "true",
        "gpu-2": "true",
    }


async def test_no_node_is_drained_in_another_cluster(fleet: Fleet) -> None:
    for name in GPU_NODES:
        await fleet.lab.ssh(name, f"touch {REBOOT_DUE}")
    stopped = await fleet.stops_untouched("upgrade_driver", WRONG)
    assert says(stopped, WRONG), stopped.output
