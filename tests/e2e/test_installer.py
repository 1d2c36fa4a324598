"""The installer's Job on two control plane nodes, from our images, with the deployed permissions.

Everything is scheduled by the static kube-schedulers that it edits, the extender and the Jobs too.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio

from gpushare.contract import ANN_IDX
from release import Images, ensure
from testbed import Bed, SchedulerSpec, SimGpu, SimNode, Testbed, until
from testbed.kubelets import KubeletNode, KubeletSpec, add_kubelet
from testbed.kubelets.services import load
from testbed.stories.deployed import CONTROL_PLANE, by_kubectl
from tests.support.fixtures import static_scheduler

pytestmark = [
    pytest.mark.needs("kubelet", "images"),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(900),
]

VERSION = "1.36"
REFUSED = "1.24"
"""kube-scheduler 1.36 cannot read the configuration of that version."""
TAG = "stable"
"""A tag without a version, so that the version in the stack's configuration counts."""
SIMULATED = "n"
NAMES = ("cp-a", "cp-b")
ORIGINAL = static_scheduler.original(VERSION, TAG)
CONFIG = f"{static_scheduler.FOLDER}/gpushare/scheduler-config.json"
NAMESPACE = "/api/v1/namespaces/kube-system"
JOB = "/apis/batch/v1/namespaces/kube-system/jobs/gpushare-installer"
OURS = "component=gpushare-installer"
SLOW_S = 400
LOOK_S = 0.1


@dataclass(frozen=True)
class ControlPlane:
    """Two nodes that run kube-scheduler, and a simulated GPU node."""

    bed: Bed
    nodes: Mapping[str, KubeletNode]
    images: Images

    async def deploy(self, state: str, version: str = VERSION) -> None:
        """Delete the previous Job; deploy extender and installer from the output of ``components.render``."""
        await self.remove_job()
        await by_kubectl(
            self.bed,
            {
                "kubernetesVersion": version,
                "extender": {
                    "exposure": "node-port",
                    "image": self.images.references["extender"],
                    "certificatesImage": self.images.references["cli"],
                },
                "devicePlugins": [],
                "installer": {
                    "image": self.images.references["cli"],
                    "controlPlanes": len(self.nodes),
                    "state": state,
                },
            },
        )

    async def remove_job(self) -> None:
        """Delete the Job, if there is one, with its pods."""
        jobs = await self.bed.api.get(JOB.rpartition("/")[0])
        if jobs["items"]:
            await self.bed.api.delete(JOB, propagationPolicy="Foreground")
        await until(self.no_pods, "the pods of the Job before to be gone", SLOW_S)

    async def no_pods(self) -> bool:
        return not await self.pods()

    async def pods(self) -> list[dict[str, Any]]:
        """The pods of the Job."""
        items: list[dict[str, Any]] = (await self.bed.api.get(f"{NAMESPACE}/pods", labelSelector=OURS))[
            "items"
        ]
        return items

    async def has(self, kind: str) -> bool:
        """Whether the Job has a condition, Complete or Failed."""
        conditions = (await self.bed.api.get(JOB))["status"].get("conditions", ())
        return any(each["type"] == kind and each["status"] == "True" for each in conditions)

    async def until_complete(self) -> None:
        await until(lambda: self.has("Complete"), "the installer to be complete", SLOW_S)

    async def until_failed(self) -> None:
        await until(lambda: self.has("Failed"), "the installer to have failed", SLOW_S)

    def manifest(self, name: str) -> str:
        return self.nodes[name].path(static_scheduler.MANIFEST).read_text()

    def edited(self) -> set[str]:
        """The nodes with a manifest that differs from that of kubeadm."""
        return {name for name in self.nodes if self.manifest(name) != ORIGINAL}

    async def run_with_us(self) -> dict[str, bool | None]:
        """Whether each node's scheduler has our configuration; None if none runs."""
        return {name: await static_scheduler.runs_with(node, CONFIG) for name, node in self.nodes.items()}

    async def until_down(self, name: str) -> None:
        """Wait until a node's manifest is edited and its scheduler does not run."""

        async def down() -> bool:
            return name in self.edited() and (await self.run_with_us())[name] is None

        await until(down, f"the scheduler of {name} to be down", SLOW_S)

    async def reasons(self) -> list[str]:
        """The messages of the Job's failure events."""
        events = await self.bed.api.get(f"{NAMESPACE}/events")
        return [each["message"] for each in events["items"] if each["reason"] == "SchedulerNotEdited"]

    async def place(self, name: str) -> dict[str, str]:
        """The annotations of a new pod after its bind to the simulated node, which takes no other pods."""
        await self.bed.kubectl("uncordon", SIMULATED)
        pod = await static_scheduler.place(self.bed, name, 4)
        await self.bed.kubectl("cordon", SIMULATED)
        annotations: dict[str, str] = pod["metadata"].get("annotations", {})
        return annotations


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plane(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ControlPlane]:
    images = await ensure()
    async with Testbed(scheduler=SchedulerSpec(None)) as bed:
        nodes: dict[str, KubeletNode] = {}
        for name in NAMES:
            spec = KubeletSpec(
                name, labels={CONTROL_PLANE: ""}, config=static_scheduler.STATIC_PODS, services=True
            )
            nodes[name] = await add_kubelet(bed, spec)
            await load(nodes[name], images)
            await static_scheduler.install(nodes[name], VERSION, tmp_path_factory.mktemp(name), TAG)
        await bed.add_nodes([SimNode(SIMULATED, [SimGpu()])])
        # A Job would complete there, and have done nothing.
        await bed.kubectl("cordon", SIMULATED)
        yield ControlPlane(bed, nodes, images)


async def seen_until(done: Callable[[], Awaitable[None]], look: Callable[[], Awaitable[bool]]) -> list[bool]:
    """The results of repeated checks until the other task is done."""
    found: list[bool] = []
    task = asyncio.ensure_future(done())
    while not task.done():
        found.append(await look())
        await asyncio.sleep(LOOK_S)
    await task
    return found


async def test_control_planes_are_edited_one_after_the_other_and_restored_byte_for_byte(
    plane: ControlPlane,
) -> None:
    async def second_is_edited_before_the_first_is_done() -> bool:
        edited = len(plane.edited())
        done = [pod for pod in await plane.pods() if pod["status"].get("phase") == "Succeeded"]
        return edited == len(NAMES) and not done

    await plane.deploy("present")
    early = await seen_until(plane.until_complete, second_is_edited_before_the_first_is_done)
    assert early
    assert not any(early)
    assert await plane.run_with_us() == dict.fromkeys(NAMES, True)
    assert ANN_IDX in await plane.place("shared")

    before = {name: plane.manifest(name) for name in NAMES}
    await plane.deploy("present")
    await plane.until_complete()
    assert {name: plane.manifest(name) for name in NAMES} == before

    await plane.deploy("absent")
    await plane.until_complete()
    assert plane.edited() == set()
    assert await plane.run_with_us() == dict.fromkeys(NAMES, False)
    assert ANN_IDX not in await plane.place("plain")


async def test_a_configuration_that_the_scheduler_rejects_reaches_one_control_plane_and_is_undone(
    plane: ControlPlane,
) -> None:
    async def second_is_edited() -> bool:
        return NAMES[1] in plane.edited()

    await plane.deploy("present", REFUSED)
    await plane.until_down(NAMES[0])
    assert ANN_IDX not in await plane.place("meanwhile")
    assert not any(await seen_until(plane.until_failed, second_is_edited))
    assert plane.edited() == set()
    assert await plane.run_with_us() == dict.fromkeys(NAMES, False)
    (reason, *_) = await plane.reasons()
    assert reason.startswith(f"{NAMES[0]}: {static_scheduler.MANIFEST} was restored, and kube-scheduler is ")
    assert "healthy again" in reason
    assert "v1beta3" in reason


async def test_a_killed_installer_restarts_and_undoes_its_edit(
    plane: ControlPlane,
) -> None:
    await plane.deploy("present", REFUSED)
    await plane.until_down(NAMES[0])
    await plane.nodes[NAMES[0]].run_text(["pkill", "-KILL", "-f", "gpushare scheduler-manifest"])
    await plane.until_failed()
    assert plane.edited() == set()
    assert await plane.run_with_us() == dict.fromkeys(NAMES, False)
    assert ANN_IDX not in await plane.place("after-kill")
