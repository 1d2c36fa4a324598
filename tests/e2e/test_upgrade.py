"""New images for a running cluster: ``pulumi up`` replaces extenders and agents while users create pods.

Two versions of a service are the image as built and one of the same layers with another label, so that
only their digests differ. The official provider is an old one, as in the other tests of
the engine: it does not wait for a DaemonSet, nor for a Deployment's last pod.
"""

import asyncio
import hashlib
import json
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any, cast

import pytest
import pytest_asyncio

from devkit.waiting import together
from gpushare.contract import EXTENDER_NAME
from gpushare.extender.lease import LeaseDurations
from release import REGISTRY, Images, ensure, layout, recipe
from testbed import Bed, SchedulerSpec, SimNode, Testbed, until
from testbed.daemons.agent import CardNode, GpuNode
from testbed.kubelets.services import load
from testbed.pulumi import PulumiStack, old_tokens
from testbed.stories import T4 as CARD
from testbed.stories.deployed import add_control_plane_node, add_node, secure_scheduler_for
from tests.support.fixtures.gpu_nodes import SHARING, T4, bound, container, pod, remove, running, start_pods
from tests.support.recount import cards_of, never_overcommitted

pytestmark = [
    pytest.mark.needs("kubelet", "images"),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(600),
]

EXTENDER, AGENT, CLI = "extender", "device-plugin", "cli"
REPLICAS = 3
SYSTEM_PODS = "/api/v1/namespaces/kube-system/pods"
DEPLOYMENT = f"/apis/apps/v1/namespaces/kube-system/deployments/{EXTENDER_NAME}"
KEPT = ("kept-a", "kept-b")
PLACED_S = 3 * (LeaseDurations().lease_s + SchedulerSpec().max_backoff_s)
"""No extender binds until a lease has lapsed, once per replica; a rejected pod waits for its backoff."""
BLOBS = Path("blobs/sha256")


def two_versions(images: Images, service: str, folder: Path) -> Images:
    """An image layout with the built image of the service, and with a copy that has one more label."""
    source, target = images.folder / BLOBS, folder / BLOBS
    target.mkdir(parents=True)

    def put(content: bytes) -> dict[str, Any]:
        digest = hashlib.sha256(content).hexdigest()
        (target / digest).write_bytes(content)
        return {"digest": f"sha256:{digest}", "size": len(content)}

    def got(digest: str) -> bytes:
        return (source / digest.removeprefix("sha256:")).read_bytes()

    built = got(images.references[service].partition("@")[2])
    manifest = json.loads(built)
    for part in (manifest["config"], *manifest["layers"]):
        shutil.copy(source / part["digest"].removeprefix("sha256:"), target)
    config = json.loads(got(manifest["config"]["digest"]))
    config["config"]["Labels"]["org.opencontainers.image.version"] = "next"
    changed = {**manifest, "config": {**manifest["config"], **put(json.dumps(config).encode())}}
    named = {"built": put(built), "next": put(json.dumps(changed).encode())}
    kind = {"mediaType": manifest["mediaType"]}
    entries = [
        {**kind, **blob, "annotations": {"org.opencontainers.image.ref.name": name}}
        for name, blob in named.items()
    ]
    (folder / "oci-layout").write_text(json.dumps({"imageLayoutVersion": "1.0.0"}))
    (folder / layout.INDEX).write_text(json.dumps({"schemaVersion": 2, "manifests": entries}))
    references = {name: recipe.reference(REGISTRY, service, blob["digest"]) for name, blob in named.items()}
    return Images(references, folder, {})


@dataclass
class Site:
    """Three extenders and a node of two GPUs, with one pod on each."""

    stack: PulumiStack
    cards: CardNode
    versions: Mapping[str, Images]
    wanted: dict[str, str]

    @property
    def bed(self) -> Bed:
        return self.stack.bed

    @property
    def node(self) -> GpuNode:
        # The agent is a pod here; the recount uses only kubelet and stub.
        return cast("GpuNode", self.cards)

    def change(self, service: str) -> str:
        """Configure the service's other image, and return it."""
        (other,) = set(self.versions[service].references.values()) - {self.wanted[service]}
        self.wanted[service] = other
        self.stack.configure(configuration(self.wanted))
        return other

    async def until_runs(self, service: str, images: list[str]) -> None:
        """Wait until the pods of the service run these images and no others."""

        async def so() -> bool:
            return await self.ready(service) == images

        await until(so, f"{service} to run {images}", 60)

    async def ready(self, service: str) -> list[str]:
        """The images of the pods of the service that are ready and not terminating."""
        pods = [each for each in await self.bed.api.items(SYSTEM_PODS) if is_ready(each)]
        images = [str(each["status"]["containerStatuses"][0]["imageID"]) for each in pods]
        return [image for image in images if image.startswith(f"{REGISTRY}/{service}@")]

    async def untouched(self) -> dict[str, tuple[str, int, int]]:
        """Container, restarts and GPU of the pods that must keep running."""
        found = {}
        for name in KEPT:
            (status,) = (await running(self.bed, name))["status"]["containerStatuses"]
            found[name] = (status["containerID"], status["restartCount"], cards_of(self.node)[name])
        return found


def configuration(images: Mapping[str, str]) -> dict[str, object]:
    return {
        "kubernetesVersion": "1.36",
        "extender": {
            "image": images[EXTENDER],
            "replicas": REPLICAS,
            "exposure": "node-port",
            "certificatesImage": images[CLI],
        },
        "devicePlugins": [{"image": images[AGENT], "nodeSelector": SHARING}],
    }


def is_ready(found: dict[str, Any]) -> bool:
    conditions = {each["type"]: each["status"] for each in found["status"].get("conditions", ())}
    return conditions.get("Ready") == "True" and "deletionTimestamp" not in found["metadata"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    images, folder = await ensure(), tmp_path_factory.mktemp("versions")
    versions = {name: two_versions(images, name, folder / name) for name in (EXTENDER, AGENT)}
    async with Testbed(kwok=False, scheduler=SchedulerSpec(version=None)) as bed:
        names = [f"master-{number}" for number in range(REPLICAS)]
        masters = await together(add_control_plane_node(bed, versions[EXTENDER], name) for name in names)
        cards = await add_node(bed, SimNode("gpu", [CARD, CARD], labels=SHARING), versions[AGENT])
        cli = replace(images, references={CLI: images.references[CLI]})
        await together(load(node, cli) for node in (*masters, cards.kubelet))
        await bed.restart_scheduler(SchedulerSpec())
        await old_tokens(bed)
        wanted = {name: pair.references["built"] for name, pair in versions.items()} | dict(cli.references)
        stack = await PulumiStack.create(bed, configuration(wanted))
        await stack.up()
        await bed.restart_scheduler(await secure_scheduler_for(bed, masters[0]))
        await cards.until_offered(90)
        await bed.create_pods([pod(name, container(10)) for name in KEPT])
        await together(running(bed, name) for name in KEPT)
        yield Site(stack, cards, versions, wanted)


@asynccontextmanager
async def users(bed: Bed) -> AsyncIterator[list[str]]:
    """Two tasks that repeatedly start a pod, wait until it runs and delete it; yields the bound pods."""
    served: list[str] = []
    done = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for name in ("one", "two"):
            group.create_task(pods_in_turn(bed, name, served, done))
        try:
            yield served
        finally:
            done.set()


async def pods_in_turn(bed: Bed, user: str, served: list[str], done: asyncio.Event) -> None:
    for number in count():
        name = f"{user}-{number}"
        await bed.create_pods([pod(name, container(2))])
        await bound(bed, name, PLACED_S)
        served.append(name)
        await running(bed, name)
        await remove(bed, name)
        if done.is_set():
            return


async def test_pods_are_placed_while_extenders_are_replaced(site: Site) -> None:
    kept = await site.untouched()
    image = site.change(EXTENDER)
    async with never_overcommitted(site.node, T4), users(site.bed) as served:
        await site.stack.up()
        await site.until_runs(EXTENDER, [image] * REPLICAS)
    assert len(served) > REPLICAS
    assert await site.untouched() == kept


async def test_the_next_up_completes_one_that_was_killed(site: Site) -> None:
    kept = await site.untouched()
    image = site.change(EXTENDER)
    process = await site.stack.start("up")

    async def begun() -> bool:
        """The stand-in for the provider does not wait for pods, so the command goes on with other objects."""
        spec = (await site.bed.api.get(DEPLOYMENT))["spec"]["template"]["spec"]
        return image in [container["image"] for container in spec["containers"]]

    async with never_overcommitted(site.node, T4):
        await until(begun, "the Deployment to be changed", 90)
        assert process.running
        await site.stack.kill(process)
        await site.stack.cancel()
        await site.stack.up("--refresh")
        await site.until_runs(EXTENDER, [image] * REPLICAS)
    assert (await site.stack.preview()).changes == {}
    assert await site.untouched() == kept


async def test_pods_keep_running_while_their_agent_is_replaced_and_later_ones_start(site: Site) -> None:
    kept = await site.untouched()
    image = site.change(AGENT)
    async with never_overcommitted(site.node, T4):
        await site.stack.up()
        await site.until_runs(AGENT, [image])
        await start_pods(site.bed, pod("later", container(4)))
    assert await site.untouched() == kept
    await remove(site.bed, "later")


async def test_destroy_keeps_running_pods_and_the_labels_of_nodes(site: Site) -> None:
    path = f"/api/v1/nodes/{site.cards.name}"
    kept, labels = await site.untouched(), (await site.bed.api.get(path))["metadata"]["labels"]
    await site.stack.destroy()

    async def gone() -> bool:
        return not await site.bed.api.items(SYSTEM_PODS)

    await until(gone, "our own pods to be gone", 60)
    assert await site.untouched() == kept
    assert (await site.bed.api.get(path))["metadata"]["labels"] == labels
