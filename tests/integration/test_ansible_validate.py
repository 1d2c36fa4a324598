"""The role validate on a real cluster: its probe pod, and its report.

The hosts are this machine with the names of the nodes; no check needs a real node.
"""

from pathlib import Path
from typing import Any

import pytest

from testbed import Bed, SchedulerSpec, SimGpu, SimNode, gpu_pod, until
from testbed.daemons.extender import ExtenderSpec, component_config, grant, start_extender
from tests.support.fixtures.gpu_nodes import bound
from tests.support.fixtures.sidecars import issue
from tests.support.fixtures.validations import validate

pytestmark = [
    pytest.mark.needs("playbooks"),
    pytest.mark.timeout(1800),
    pytest.mark.asyncio(loop_scope="module"),
]


async def probes(bed: Bed) -> list[Any]:
    pods = await bed.api.items("/api/v1/namespaces/default/pods")
    return [pod for pod in pods if pod["metadata"]["name"] == "gpushare-validate"]


@pytest.mark.short
async def test_a_scheduler_that_asks_the_extender_passes_and_the_probe_is_gone(
    restored_bed: Bed, tmp_path: Path
) -> None:
    issue(tmp_path)
    files = {name: str(tmp_path / name) for name in ("ca.crt", "tls.crt", "tls.key")}
    secured = (
        f"--tls-cert={files['tls.crt']}",
        f"--tls-key={files['tls.key']}",
        f"--client-ca={files['ca.crt']}",
    )
    spec = ExtenderSpec(flags=secured)
    url = spec.url.replace("http:", "https:")
    client = {"cert_file": files["tls.crt"], "key_file": files["tls.key"]}
    entry = component_config(url, certificates=tmp_path)
    bed = restored_bed
    await bed.restart_scheduler(SchedulerSpec(extenders=[entry]))
    await grant(bed)
    await start_extender(bed, spec)
    await bed.add_nodes([SimNode("n", [SimGpu()])])
    report = await validate(bed, tmp_path, validate_extender_url=url, validate_extender_tls=client)
    assert report.run.code == 0, report.run.output
    assert report.run.changed == {"n": 0}
    assert report.document["ok"]
    assert report.of_cluster("scheduler")["found"] == "calls the extender"
    assert not await probes(bed)

    await bed.kill(spec.name)
    dead = await validate(bed, tmp_path, validate_extender_url=url, validate_extender_tls=client)
    assert dead.run.code == 2
    assert dead.of_cluster("scheduler")["found"] == "failing"
    assert "connection refused" in dead.of_cluster("scheduler")["problem"]
    assert f"{url.rpartition('/')[0]}/version does not answer from this host" in dead.run.output


async def test_a_scheduler_without_the_extender_fails_and_the_probe_is_gone(
    restored_bed: Bed, tmp_path: Path
) -> None:
    bed = restored_bed
    await bed.restart_scheduler(SchedulerSpec())
    await bed.add_nodes([SimNode("n", [SimGpu(units=4)])])
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


async def test_a_missing_scheduler_or_api_is_reported(restored_bed: Bed, tmp_path: Path) -> None:
    bed = restored_bed
    await bed.add_nodes([SimNode("n", [SimGpu()])])
    silent = await validate(bed, tmp_path, validate_probe_timeout_s=2)
    assert silent.run.code == 2
    assert silent.of_cluster("scheduler")["found"] == "no event"
    assert not await probes(bed)
    await bed.stop("kube-apiserver")
    unread = await validate(bed, tmp_path)
    await bed.start("kube-apiserver")
    assert unread.run.code == 2
    assert unread.of_cluster("api")["found"] == "no answer"
    assert unread.document["hosts"]["n"]["level"] == "ok"
