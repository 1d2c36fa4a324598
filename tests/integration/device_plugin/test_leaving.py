"""Pods that take long to terminate; on a real kubelet."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from testbed import until
from testbed.daemons.agent import GpuNode
from tests.support.fixtures.gpu_nodes import T4, GpuBed, container, failed, metric, pod, start_pods
from tests.support.recount import cards_of, live, never_overcommitted, recorded, until_agreed

pytestmark = [pytest.mark.needs("kubelet"), pytest.mark.asyncio(loop_scope="package")]

BEGINNING_S = 10.0
"""A pod may exist without a cgroup for so many seconds after its allocation."""


async def gone_from(node: GpuNode, name: str, timeout_s: float = 30) -> None:
    async def gone() -> bool:
        return all(each.pod != f"default/{name}" for each in live(node))

    await until(gone, f"the containers of {name} to be gone", timeout_s)


DEAF = "trap '' TERM; while true; do sleep 1; done"
SLOW = "trap 'sleep 1; exit' TERM; while true; do sleep 0.1; done"


async def two_full_cards(gpus: GpuBed, script: str = DEAF) -> None:
    """``leaves`` has 10 units of GPU 0 and runs the script, ``stays`` has all units of GPU 1."""
    await start_pods(gpus.bed, pod("leaves", container(10, script=script), terminationGracePeriodSeconds=60))
    await start_pods(gpus.bed, pod("stays", container(T4)))


async def force_off(gpus: GpuBed, name: str) -> None:
    await gpus.bed.kubectl("delete", "pod", name, "--force", "--grace-period=0")


@contextmanager
def frozen(node: GpuNode, name: str) -> Iterator[None]:
    """A pod with processes that no signal ends, as in a hanging driver call."""
    uid = next(each.uid for each in live(node) if each.pod == f"default/{name}")
    group = next(node.kubelet.path("/sys/fs/cgroup/freezer").glob(f"kubepods/**/pod{uid}"))
    (group / "freezer.state").write_text("FROZEN")
    try:
        yield
    finally:
        (group / "freezer.state").write_text("THAWED")


async def test_a_forced_deletion_frees_no_gpu_while_the_container_still_runs(
    gpus: GpuBed, node: GpuNode
) -> None:
    await two_full_cards(gpus)
    async with never_overcommitted(node, T4):
        with frozen(node, "leaves"):
            await force_off(gpus, "leaves")
            await gpus.bed.create_pods([pod("too-soon", container(T4))])
            found = await failed(gpus.bed, "too-soon")
            assert "default/too-soon" in found["status"]["message"]
            assert "4 of 14 free on GPU 0" in found["status"]["message"]
            assert "leaves" in cards_of(node)
            assert await metric(node, "gpushare_device_plugin_pods", state="leaving") == 1
        await gone_from(node, "leaves")
        await start_pods(gpus.bed, pod("in-time", container(T4)))
    await until_agreed(node, gpus.extender)


async def test_an_allocation_waits_for_the_last_container_of_a_gpu_to_end(
    gpus: GpuBed, node: GpuNode
) -> None:
    # Well within the 5 s that Allocate waits.
    await two_full_cards(gpus, SLOW)
    async with never_overcommitted(node, T4):
        await force_off(gpus, "leaves")
        await start_pods(gpus.bed, pod("waits", container(T4)))
    await until_agreed(node, gpus.extender)


@contextmanager
def busy(volume: Path) -> Iterator[None]:
    """A tmpfs that the kubelet cannot unmount, so it does not remove the cgroup of the pod."""
    with (volume / "held").open("w"):
        yield


async def test_a_gpu_is_not_reallocated_while_the_cgroup_of_a_deleted_pod_remains(
    gpus: GpuBed, node: GpuNode
) -> None:
    bed = gpus.bed
    await start_pods(bed, pod("stays", container(T4)))
    # A pod that waits for a volume has an allocation and a cgroup, but no process yet.
    volumes = [
        {"name": "scratch", "emptyDir": {"medium": "Memory"}},
        {"name": "absent", "configMap": {"name": "absent"}},
    ]
    mounts = [{"name": each["name"], "mountPath": f"/{each['name']}"} for each in volumes]
    (starts,) = await bed.create_pods([pod("starts", container(10, volumeMounts=mounts), volumes=volumes)])
    uid = starts["metadata"]["uid"]
    volume = node.kubelet.path(f"/var/lib/kubelet/pods/{uid}/volumes/kubernetes.io~empty-dir/scratch")

    async def waits() -> bool:
        return uid in recorded(node) and volume.is_mount()

    await until(waits, "the pod to have its GPU and its first volume")
    given = time.monotonic()

    async def has_begun() -> bool:
        return time.monotonic() - given > BEGINNING_S

    with busy(volume):
        await force_off(gpus, "starts")
        await until(has_begun, "the time to pass in which an absent group says nothing")
        await bed.create_pods([pod("comes", container(10), nodeName=node.name)])
        assert "asked 10, at most 4 of 14 free" in (await failed(bed, "comes"))["status"]["message"]
    await start_pods(bed, pod("comes-later", container(10)))
