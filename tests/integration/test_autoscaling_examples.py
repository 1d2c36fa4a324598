"""The examples for autoscalers: Karpenter's definitions accept them, and they say what nodes will offer."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
import yaml

from gpushare.cli.node_group.entries import group_of
from gpushare.contract import EXTENDER_PREFIX, MANAGED_RESOURCES, STARTUP_TAINTS
from testbed import Bed, SchedulerSpec, Testbed, until
from testbed.control_plane.api import Object
from testbed.programs import build
from testbed.programs.binaries import ModuleFiles
from tests.support.fixtures.pages import ROOT

pytestmark = pytest.mark.asyncio(loop_scope="module")

FOLDER = ROOT / "examples" / "autoscaling"
KARPENTER = ModuleFiles(
    "karpenter",
    "sigs.k8s.io/karpenter",
    "pkg/apis/crds",
    ("karpenter.sh_nodeoverlays.yaml", "karpenter.sh_nodepools.yaml"),
)


def documents(name: str) -> list[Object]:
    return list(yaml.safe_load_all((FOLDER / name).read_text()))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bed() -> AsyncIterator[Bed]:
    """A cluster with the resources of Karpenter."""
    folder = await build.ensure_files(KARPENTER)
    async with Testbed(scheduler=SchedulerSpec(None), kwok=False) as made:
        files = (f"--filename={folder / name}" for name in KARPENTER.files)
        await made.kubectl("apply", "--server-side", *files)

        async def served() -> bool:
            found = await made.kubectl("api-resources", "--api-group=karpenter.sh", "--output=name")
            return len(found.split()) == len(KARPENTER.files)

        await until(served, "the resources of Karpenter to be served", 60)
        yield made


async def test_karpenter_accepts_the_node_pool_and_its_overlay(bed: Bed) -> None:
    text = (FOLDER / "karpenter.yaml").read_text()
    flags = ("--server-side", "--validate=strict", "--dry-run=server", "--filename=-")
    applied = await bed.kubectl("apply", *flags, stdin=text)
    assert applied.count("serverside-applied") == 2


async def test_the_overlay_has_the_capacity_that_the_nodes_will_have() -> None:
    pool, overlay = documents("karpenter.yaml")
    labels = pool["spec"]["template"]["metadata"]["labels"]
    stated = {name: str(amount) for name, amount in overlay["spec"]["capacity"].items()}
    assert stated == group_of(4, 22, labels).resources
    (requirement,) = overlay["spec"]["requirements"]
    assert requirement["values"] == [pool["metadata"]["name"]]
    assert [taint["key"] for taint in pool["spec"]["template"]["spec"]["startupTaints"]] == [
        STARTUP_TAINTS[0]
    ]


async def test_a_pod_chooses_the_tier_of_the_pool(bed: Bed) -> None:
    (pod,) = documents("tier.yaml")
    pool, _ = documents("karpenter.yaml")
    assert pod["spec"]["nodeSelector"].items() <= pool["spec"]["template"]["metadata"]["labels"].items()
    text = (FOLDER / "tier.yaml").read_text()
    await bed.kubectl("apply", "--validate=strict", "--dry-run=server", "--filename=-", stdin=text)


async def test_cluster_autoscaler_sends_nodes_to_the_filter_of_the_extender() -> None:
    (document,) = documents("cluster-autoscaler.yaml")
    (extender,) = document["extenders"]
    assert f"{extender['urlPrefix']}/{extender['filterVerb']}".endswith(f"{EXTENDER_PREFIX}/filter")
    assert extender["nodeCacheCapable"] is False
    assert extender["managedResources"] == [{"name": name} for name in MANAGED_RESOURCES]
    assert not {"bindVerb", "prioritizeVerb", "preemptVerb"} & extender.keys()
