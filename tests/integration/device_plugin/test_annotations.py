"""Annotations that users write on their pods; on a real kubelet."""

from collections.abc import Mapping

import pytest

from gpushare import contract
from testbed.daemons.agent import GpuNode
from tests.support.fixtures.gpu_nodes import PODS, T4, GpuBed, container, failed, pod, running, start_pods
from tests.support.recount import cards_of, live, never_overcommitted, until_agreed

pytestmark = [pytest.mark.needs("kubelet"), pytest.mark.asyncio(loop_scope="package")]


async def test_pods_with_invalid_annotations_get_a_gpu_with_enough_free_units(
    gpus: GpuBed, node: GpuNode
) -> None:
    odd: dict[str, Mapping[str, str]] = {
        "no-number": {contract.ANN_IDX: "banana", contract.ANN_POD: "5"},
        "no-such-card": {contract.ANN_IDX: "7", contract.ANN_POD: "5", contract.ANN_ASSUME_TIME: "1"},
        "no-json": {contract.ANN_IDX: "0", contract.ANN_POD: "5", contract.ANN_ALLOCATION: '{"0": {"x": 5'},
        "no-time": {contract.ANN_IDX: "1", contract.ANN_POD: "5", contract.ANN_ASSUME_TIME: "yesterday"},
    }
    async with never_overcommitted(node, T4):
        for name, annotations in odd.items():
            found = pod(name, container(5), nodeName="faulty")
            found["metadata"]["annotations"] = annotations
            await gpus.bed.create_pods([found])
        for name in odd:
            await running(gpus.bed, name)
    await until_agreed(node, gpus.extender)


async def test_the_agent_over_commits_no_gpu_for_any_annotations(gpus: GpuBed, node: GpuNode) -> None:
    await start_pods(gpus.bed, pod("a", container(10)), pod("b", container(10)))
    liar = pod("liar", container(8), nodeName="faulty")
    liar["metadata"]["annotations"] = {contract.ANN_IDX: "0", contract.ANN_POD: "8"}
    await gpus.bed.create_pods([liar])
    found = await failed(gpus.bed, "liar")
    assert "asked 8" in found["status"]["message"]
    await until_agreed(node, gpus.extender)


async def test_a_served_pod_that_loses_its_seal_takes_no_units_from_others(
    gpus: GpuBed, node: GpuNode
) -> None:
    """A restarted extender does not know the GPU of a bind without a valid seal; the agent does."""
    bed = gpus.bed
    await start_pods(bed, pod("sly", container(4)), pod("honest", container(4)))
    assert cards_of(node) == {"sly": 0, "honest": 0}
    await until_agreed(node, gpus.extender)
    edited = {contract.ANN_SEAL: "x", contract.ANN_IDX: "1"}
    await bed.api.patch(f"{PODS}/sly", {"metadata": {"annotations": edited}})
    await bed.stop(gpus.extender.name)
    await bed.start(gpus.extender.name)
    await start_pods(bed, pod("whole", container(T4)))
    assert cards_of(node) == {"sly": 0, "honest": 0, "whole": 1}
    await until_agreed(node, gpus.extender)


async def test_a_pod_of_several_equal_containers_has_them_all_on_one_gpu(gpus: GpuBed, node: GpuNode) -> None:
    trio = pod("trio", *(container(4, f"c{i}") for i in range(3)))
    await start_pods(gpus.bed, pod("small", container(4)))
    await gpus.bed.create_pods([trio])
    await running(gpus.bed, "trio")
    assert sorted((each.container, each.index) for each in live(node) if each.pod == "default/trio") == [
        ("c0", 1),
        ("c1", 1),
        ("c2", 1),
    ]
    await until_agreed(node, gpus.extender)


async def test_a_pod_with_an_invalid_request_is_rejected_with_the_reason(gpus: GpuBed, node: GpuNode) -> None:
    labels = {contract.LABEL_CARDS_PER_POD: "many"}
    await gpus.bed.create_pods([pod("odd", container(4), labels=labels, nodeName=node.name)])
    found = await failed(gpus.bed, "odd")
    assert "'many'" in found["status"]["message"]
    assert "pod default/odd, container main" in found["status"]["message"]
