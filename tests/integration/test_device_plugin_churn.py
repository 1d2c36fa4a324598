"""Pods of all sizes start and end on one node of eight GPUs, and all state must agree.

``make soak-device-plugin`` runs the same for minutes (``GPUSHARE_SOAK_S``).
"""

import asyncio
import json
import os
import random
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import click
import pytest

from gpushare import contract
from gpushare.adapters.kubelet.podresources import PodResources
from gpushare.model.annotations import parse_allocation, parse_assigned
from testbed.control_plane.api import Object, read_text
from testbed.daemons.agent import GpuNode, add_gpu_node
from testbed.kubelets import KubeletSpec
from testbed.nvml import card
from tests.fixtures.gpu_nodes import (
    PODS,
    SHARING,
    GpuBed,
    clear,
    container,
    gpu_bed,
    is_over,
    node_object,
    pod,
    until_allocatable,
)
from tests.support.recount import live, never_overcommitted

pytestmark = [pytest.mark.integration, pytest.mark.needs("kubelet"), pytest.mark.timeout(0)]

SECONDS = float(os.environ.get("GPUSHARE_SOAK_S", "20"))
CARDS, UNITS = 8, 14
MOST_PODS = 100
AGREE_S = 10.0
"""More than a slow machine needs for one look at all states."""
ENOUGH_PODS = CARDS + 1
PATIENCE_S = 240.0
"""For as many pods on a slow machine."""


@dataclass
class Quarrels:
    """Disagreements and the time of each; one that lasts too long is a failure."""

    since: dict[str, float] = field(default_factory=dict)
    longest_s: float = 0.0

    def note(self, found: set[str]) -> None:
        now = time.monotonic()
        self.since = {each: self.since.get(each, now) for each in found}
        self.longest_s = max([self.longest_s, *(now - begun for begun in self.since.values())])
        assert self.longest_s <= AGREE_S, f"stood for {self.longest_s:.1f} s: {found}"


async def test_after_pod_churn_all_state_agrees() -> None:
    dice = random.Random(20_11)
    async with gpu_bed() as gpus:
        node = await add_gpu_node(
            gpus.bed, KubeletSpec("churn", labels=SHARING, config={"maxPods": 250}), CARDS * [card("T4")]
        )
        await until_allocatable(node, CARDS * UNITS)
        async with never_overcommitted(node, UNITS):
            served = await _churn(gpus, node, dice)
        await clear(gpus.bed)
        assert served >= ENOUGH_PODS, f"only {served} pods ran in {PATIENCE_S:.0f} s"


async def _churn(gpus: GpuBed, node: GpuNode, dice: random.Random) -> int:
    """Create and delete pods for some time, until enough have run; return their number."""
    quarrels, number, seen = Quarrels(), 0, set[str]()
    begun = time.monotonic()
    while (passed_s := time.monotonic() - begun) < SECONDS or (
        len(seen) < ENOUGH_PODS and passed_s < PATIENCE_S
    ):
        pods = await gpus.bed.api.items(PODS)
        if len(pods) < MOST_PODS and dice.random() < 0.7:
            number += 1
            await gpus.bed.create_pods(
                [pod(f"churn-{number}", container(dice.choice((1, 1, 2, 3, 4, 6, 8))))]
            )
        elif pods:
            await gpus.bed.api.delete(f"{PODS}/{dice.choice(pods)['metadata']['name']}")
        running = await _running(gpus)
        seen |= running.keys()
        quarrels.note(await _quarrels(gpus, node, running))
        await asyncio.sleep(dice.uniform(0, 0.2))
    click.echo(
        f"{len(seen)} pods ran, {number} were made; the longest disagreement stood {quarrels.longest_s:.2f} s"
    )
    return len(seen)


async def _running(gpus: GpuBed) -> dict[str, Object]:
    return {
        each["metadata"]["uid"]: each
        for each in await gpus.bed.api.items(PODS)
        if each["status"].get("phase") == "Running" and not is_over(each)
    }


async def _quarrels(gpus: GpuBed, node: GpuNode, running: Mapping[str, Object]) -> set[str]:
    """Differences of API, kubelet and extender to the devices of the containers."""
    really = {each.uid: {each.index: each.units} for each in live(node) if each.uid in running}
    text = (await node_object(node))["metadata"]["annotations"].get(contract.ANN_ASSIGNED_NODE, "{}")
    assigned = parse_assigned(text) or {}
    held = {f"{each.namespace}/{each.pod}": len(each.ids) for each in await _pod_resources(node)}
    books = await _books(gpus, node)
    found = set()
    for uid, cards in really.items():
        name = f"default/{running[uid]['metadata']['name']}"
        annotations = running[uid]["metadata"].get("annotations", {})
        reported = assigned.get(uid) or parse_allocation(annotations.get(contract.ANN_ALLOCATION, "")) or {}
        if reported != cards:
            found.add(f"{name}: the API says {reported}")
        if held.get(name) != sum(cards.values()):
            found.add(f"{name}: the kubelet says {held.get(name)}")
        if books.get(name) != cards:
            found.add(f"{name}: the extender says {books.get(name)}")
    return found


async def _pod_resources(node: GpuNode):  # type: ignore[no-untyped-def]
    socket = node.kubelet.path(contract.POD_RESOURCES_SOCKET)
    return [each for each in await PodResources(socket).list() if each.resource == contract.RESOURCE_MEM]


async def _books(gpus: GpuBed, node: GpuNode) -> dict[str, dict[int, int]]:
    """Pod → GPU → units, as the extender's inspect returns them."""
    answer = json.loads(await read_text(f"{gpus.extender.url}/inspect/{node.name}"))
    books: dict[str, Counter[int]] = {}
    for each in answer["nodes"]:
        for device in each["devs"]:
            for gpu_pod in device["pods"] or ():
                name = f"{gpu_pod['namespace']}/{gpu_pod['name']}"
                books.setdefault(name, Counter())[device["id"]] += gpu_pod["usedGPU"]
    return {name: dict(cards) for name, cards in books.items()}
