"""Reads the records of all components of the cluster of a soak.

What belongs here: requests and files. What does not: comparing what they have (``tests.soak.records``).
"""

import asyncio
import json
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from gpushare import contract
from gpushare.adapters.kubelet.podresources import PodResources
from testbed.control_plane.api import read_text
from testbed.daemons.agent import GpuNode
from testbed.daemons.extender import ExtenderSpec
from testbed.system.waiting import together
from tests.fixtures.gpu_nodes import PODS, node_object
from tests.soak.cluster import Cluster
from tests.soak.pods import Pods
from tests.soak.records import Cards, NodeRecords, Records
from tests.support.recount import CHECKPOINT, env_of, recorded, running_specs, visible


async def read_records(cluster: Cluster, pods: Pods) -> Records:
    """Read all records. Raises ApiError, KubeletError or OSError if a component does not answer."""
    nodes = await together(_node(each) for each in cluster.nodes.values())
    ledgers = await together(_ledger(each) for each in cluster.extenders.values())
    found = {each["metadata"]["name"]: each for each in await cluster.bed.api.items(PODS)}
    return Records(
        wanted=dict(pods.wanted),
        finished=frozenset(pods.finished),
        pods=found,
        ledgers=dict(zip(cluster.extenders, ledgers, strict=True)),
        nodes=dict(zip(cluster.nodes, nodes, strict=True)),
    )


async def _node(node: GpuNode) -> NodeRecords:
    notes = (await node_object(node))["metadata"].get("annotations", {})
    index = {node.stub.uuid(each): each for each in range(len(node.stub.description.cards))}
    return NodeRecords(
        specs=cards_in_use(node),
        record={
            uid: {index[each]: units for each, units in cards.items()}
            for uid, cards in recorded(node).items()
        },
        assigned={
            uid: _sum(containers)
            for uid, containers in json.loads(notes.get(contract.ANN_ASSIGNED_NODE, "{}")).items()
        },
        checkpoint=await asyncio.to_thread(_checkpoint, node),
        resources=await _resources(node),
    )


def cards_in_use(node: GpuNode) -> dict[str, Counter[int]]:
    """Pod UID → GPU → units of its running containers, each spread evenly over its GPUs."""
    found: dict[str, Counter[int]] = defaultdict(Counter)
    for spec, _ in running_specs(node):
        cards = [_index(node, name) for name in visible(spec)]
        units = int(env_of(spec)[contract.ENV_CONTAINER]) // len(cards)
        found[spec["annotations"]["io.kubernetes.cri.sandbox-uid"]].update(dict.fromkeys(cards, units))
    return dict(found)


def _index(node: GpuNode, uuid: str) -> int:
    return [each.uuid for each in node.stub.description.cards].index(uuid)


def _sum(containers: Mapping[str, Mapping[str, int]]) -> Cards:
    total: Counter[int] = Counter()
    for cards in containers.values():
        total.update({int(card): units for card, units in cards.items()})
    return dict(total)


def _checkpoint(node: GpuNode) -> dict[str, int]:
    """Pod UID → units of GPU memory in the checkpoint of the kubelet."""
    total: Counter[str] = Counter()
    data = json.loads(node.kubelet.path(CHECKPOINT).read_text())["Data"]
    for each in data["PodDeviceEntries"] or ():
        if each["ResourceName"] == contract.RESOURCE_MEM:
            total[each["PodUID"]] += sum(map(len, each["DeviceIDs"].values()))
    return dict(total)


async def _resources(node: GpuNode) -> dict[str, int]:
    """Pod → units of GPU memory that PodResources reports."""
    total: Counter[str] = Counter()
    for each in await PodResources(node.kubelet.path(contract.POD_RESOURCES_SOCKET)).list():
        if each.resource == contract.RESOURCE_MEM:
            total[each.pod] += len(each.ids)
    return dict(total)


async def _ledger(extender: ExtenderSpec) -> dict[tuple[str, str], Cards]:
    """(Node, pod) → GPU → units that a replica counts."""
    found: dict[tuple[str, str], Counter[int]] = defaultdict(Counter)
    answer: dict[str, Any] = json.loads(await read_text(f"{extender.url}/inspect", timeout_s=10))
    for node in answer["nodes"]:
        for device in node["devs"]:
            for each in device["pods"] or ():
                found[node["name"], each["name"]][device["id"]] += each["usedGPU"]
    return {key: dict(cards) for key, cards in found.items()}
