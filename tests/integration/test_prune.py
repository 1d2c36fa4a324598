"""The page "Upgrade" on a real API server: a prune deletes what left a configuration, and nothing else."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
import yaml

from gpushare.contract import EXPORTER_NAME, ISOLATION_INSTALLER_NAME, MPS_NAME
from testbed import Bed, SchedulerSpec, Testbed
from tests.support.builders.stacks import DIGEST
from tests.support.fixtures.checkouts import ROOT
from tests.support.fixtures.readers import Reader
from tests.support.pages import Command, steps

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

PAGE = ROOT / "docs/how-to/upgrade.md"
COMMANDS = [
    each
    for each in steps(PAGE.read_text())
    if isinstance(each, Command) and each.section == "Delete what a configuration no longer has"
]
IMAGES = ("extender", "device-plugin", "exporter", "isolation", "metrics-api", "cli", "prometheus")
TENANTS = [{"name": "team-a", "gpuMem": 8, "priority": 10}, {"name": "team-b", "gpuMem": 8, "priority": 20}]
SHARED = {"gpushare": "true"}
"""Nodes without limits, which need no isolation."""
WHOLE: dict[str, Any] = {
    "kubernetesVersion": "1.36",
    "images": "images.json",
    "extender": {"exposure": "node-port"},
    "devicePlugins": [{"nodeSelector": SHARED}],
    "nodePools": [{"nodes": ["gpu-1", "gpu-2"], "labels": SHARED}],
    "isolation": {},
    "mps": {},
    "monitoring": {"prometheus": {"storage": "20Gi"}},
    "tenants": TENANTS,
}
WITHOUT_ISOLATION = {key: value for key, value in WHOLE.items() if key != "isolation"}
SMALL = {
    **{key: WHOLE[key] for key in ("kubernetesVersion", "images", "extender", "devicePlugins")},
    "nodePools": [{"nodes": ["gpu-1"], "labels": SHARED}],
    "tenants": TENANTS[:1],
}
FOREIGN = """\
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: foreign
  namespace: kube-system
  labels: &marks {app: gpushare, component: foreign}
spec:
  selector: {matchLabels: *marks}
  template:
    metadata: {labels: *marks}
    spec: {containers: [{name: a, image: example.com/a}]}
"""
KEPT = "namespaces,nodes,resourcequotas,priorityclasses,persistentvolumeclaims"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def reader(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Reader]:
    """The whole configuration is applied as the page says, beside a DaemonSet with the same label."""
    async with Testbed(kwok=False, scheduler=SchedulerSpec(None)) as bed:
        made = await Reader.of(bed, tmp_path_factory.mktemp("prune"))
        (made.checkout / "images.json").write_text(json.dumps(dict.fromkeys(IMAGES, DIGEST)))
        await bed.apply(FOREIGN)
        await apply(made, WHOLE)
        yield made


async def apply(reader: Reader, stack: dict[str, Any]) -> str:
    """Run the commands of the page; return what they print."""
    configure(reader, stack)
    shown = ""
    for command in COMMANDS:
        done = await reader.run(command.line)
        # Nothing to prune is no line for grep.
        assert done.code == 0 or "| grep " in command.line, done.output
        shown += done.output
    return shown


def configure(reader: Reader, stack: dict[str, Any]) -> None:
    config = {f"gpushare:{key}": value for key, value in stack.items()}
    (reader.checkout / "Pulumi.my-cluster.yaml").write_text(yaml.safe_dump({"config": config}))


async def found(bed: Bed, kinds: str) -> dict[str, str]:
    """UID by kind and name, in all namespaces."""
    listed = json.loads(await bed.kubectl("get", kinds, "--all-namespaces", "--output=json"))
    return {f"{each['kind']}/{each['metadata']['name']}": each["metadata"]["uid"] for each in listed["items"]}


async def test_the_page_deletes_what_is_no_longer_configured(reader: Reader) -> None:
    before = await found(reader.bed, "daemonsets")
    assert f"DaemonSet/{ISOLATION_INSTALLER_NAME}" in before
    configure(reader, WITHOUT_ISOLATION)
    for command in COMMANDS:
        await reader.follow(command)
    before.pop(f"DaemonSet/{ISOLATION_INSTALLER_NAME}")
    assert await found(reader.bed, "daemonsets") == before


async def test_what_others_use_stays_when_it_leaves_the_configuration(reader: Reader) -> None:
    kept = await found(reader.bed, KEPT)
    secrets = await found(reader.bed, "secrets")
    assert {"Namespace/team-b", "Node/gpu-2", "PriorityClass/team-b"} <= kept.keys()
    assert "PersistentVolumeClaim/gpushare-prometheus" in kept
    shown = await apply(reader, SMALL)
    assert f"daemonset.apps/{EXPORTER_NAME} pruned" in shown
    assert "deployment.apps/gpushare-prometheus pruned" in shown
    left = await found(reader.bed, "daemonsets,deployments")
    assert left.keys() >= {
        "DaemonSet/foreign",
        f"DaemonSet/{MPS_NAME}",
        "DaemonSet/gpushare-device-plugin-ds",
        "Deployment/gpushare-schd-extender",
    }
    assert not left.keys() & {f"DaemonSet/{EXPORTER_NAME}", "Deployment/gpushare-prometheus"}
    assert await found(reader.bed, KEPT) == kept
    assert await found(reader.bed, "secrets") == secrets
    assert await found(reader.bed, "daemonsets") == {
        name: uid for name, uid in left.items() if name.startswith("DaemonSet")
    }


async def test_another_run_deletes_nothing(reader: Reader) -> None:
    assert "pruned" not in await apply(reader, SMALL)
