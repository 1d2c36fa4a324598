"""The role validate on a real cluster: its probe pod, and its report.

The hosts are this machine with the names of the nodes; no check needs a real node.
"""

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from testbed import Bed, Card, SchedulerSpec, SimNode, Testbed, gpu_pod, until
from testbed.daemons.extender import ExtenderSpec, component_config, grant, start_extender
from tests.fixtures import playbooks
from tests.fixtures.gpu_nodes import bound
from tests.support import needs

pytestmark = [pytest.mark.integration, pytest.mark.needs("playbooks"), pytest.mark.timeout(600)]
PLAY = [{"hosts": "all", "gather_facts": False, "roles": ["gpushare.nodes.validate"]}]


class Report(NamedTuple):
    """Exit code, output and JSON document of a run."""

    run: playbooks.Run
    document: dict[str, Any]

    def of_cluster(self, name: str) -> dict[str, Any]:
        """Return a check of the cluster."""
        return next(check for check in self.document["cluster"]["checks"] if check["name"] == name)


async def validate(bed: Bed, folder: Path, **variables: Any) -> Report:
    asked = {
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
        "validate_node": "plain",
        "validate_services": [],
        "validate_kubeconfig": str(bed.kubeconfig),
        "validate_report_path": str(folder / "report.json"),
        **variables,
    }
    inventory, play = folder / "hosts.json", folder / "validate.json"
    inventory.write_text(json.dumps({"all": {"hosts": {"n": None}, "vars": asked}}))
    play.write_text(json.dumps(PLAY))
    run = await playbooks.run([str(needs.PLAYBOOK), f"--inventory={inventory}", str(play)])
    return Report(run, json.loads((folder / "report.json").read_text()))


async def probes(bed: Bed) -> list[Any]:
    pods = await bed.api.items("/api/v1/namespaces/default/pods")
    return [pod for pod in pods if pod["metadata"]["name"] == "gpushare-validate"]


async def test_a_scheduler_that_asks_the_extender_passes_and_the_probe_is_gone(tmp_path: Path) -> None:
    spec = ExtenderSpec()
    async with Testbed(scheduler=SchedulerSpec(extenders=[component_config(spec.url)])) as bed:
        await grant(bed)
        await start_extender(bed, spec)
        await bed.add_nodes([SimNode("n", [Card()])])
        report = await validate(bed, tmp_path, validate_extender_url=spec.url)
        assert report.run.code == 0, report.run.output
        assert report.run.changed == {"n": 0}
        assert report.document["ok"]
        assert report.of_cluster("scheduler")["found"] == "calls the extender"
        assert not await probes(bed)

        await bed.kill(spec.name)
        dead = await validate(bed, tmp_path, validate_extender_url=spec.url)
        assert dead.run.code == 2
        assert dead.of_cluster("scheduler")["found"] == "failing"
        assert "connection refused" in dead.of_cluster("scheduler")["problem"]
        assert f"{spec.url.rpartition('/')[0]}/version does not answer from this host" in dead.run.output


async def test_a_scheduler_without_the_extender_fails_and_the_probe_is_gone(tmp_path: Path) -> None:
    async with Testbed() as bed:
        await bed.add_nodes([SimNode("n", [Card(units=4)])])
        report = await validate(bed, tmp_path)
        assert report.run.code == 2
        assert report.of_cluster("scheduler")["found"] == "without extender"
        assert report.of_cluster("scheduler")["problem"].endswith("to n): run the role scheduler_extender")
        assert report.document["hosts"]["n"]["level"] == "ok"

        async def gone() -> bool:
            return not await probes(bed)

        await until(gone, "the probe to be gone")

        await bed.create_pods([gpu_pod("all", 4)])
        await bound(bed, "all")
        full = await validate(bed, tmp_path)
        assert full.run.code == 0
        assert full.of_cluster("scheduler")["level"] == "warn"


async def test_a_missing_scheduler_or_api_is_reported(tmp_path: Path) -> None:
    async with Testbed(scheduler=SchedulerSpec(None)) as bed:
        await bed.add_nodes([SimNode("n", [Card()])])
        silent = await validate(bed, tmp_path, validate_probe_timeout_s=2)
        assert silent.run.code == 2
        assert silent.of_cluster("scheduler")["found"] == "no event"
        assert not await probes(bed)
    unread = await validate(bed, tmp_path)
    assert unread.run.code == 2
    assert unread.of_cluster("api")["found"] == "no answer"
    assert unread.document["hosts"]["n"]["level"] == "ok"
