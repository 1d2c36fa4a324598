"""Reads the records of all components of the cluster of a soak.

What belongs here: requests and files. What does not: comparing what they have (``tests.soak.records``).
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from devkit.waiting import together
from gpushare import contract
from gpushare.errors import ApiError
from gpushare.model.devices import ContainerDevices
from testbed.control_plane.api import read_text
from testbed.daemons.extender import ExtenderSpec
from tests.soak.cluster import Cluster
from tests.soak.nodes import Container, Node
from tests.soak.pods import Pods
from tests.soak.records import Cards, NodeRecords, Records
from tests.support.fixtures.gpu_nodes import PODS
from tests.support.recount import CHECKPOINT, RECORD, units_in


async def read_records(cluster: Cluster, pods: Pods) -> Records:
    """Read all records; raise ApiError, KubeletError, OSError or DevkitError if one cannot be read."""
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


async def scheduling(cluster: Cluster) -> list[str]:
    """Return the state of each node, and why each pending pod waits, or that they cannot be read."""
    try:
        nodes, pods = await cluster.bed.api.items("/api/v1/nodes"), await cluster.bed.api.items(PODS)
    except ApiError as error:
        return [f"nodes and pods cannot be read: {error}"]
    waiting = (each for each in pods if not each["spec"].get("nodeName"))
    return [*map(_state, nodes), *map(_why, waiting)]


def _state(node: Mapping[str, Any]) -> str:
    conditions = {each["type"]: each["status"] for each in node["status"].get("conditions", ())}
    units = {
        key: node["status"].get(key, {}).get(contract.RESOURCE_MEM) for key in ("capacity", "allocatable")
    }
    taints = [each["key"] for each in node["spec"].get("taints", ())]
    return f"{node['metadata']['name']}: Ready {conditions.get('Ready')}, units {units}, taints {taints}"


def _why(pod: Mapping[str, Any]) -> str:
    reasons = [
        str(each.get("message"))
        for each in pod["status"].get("conditions", ())
        if each["type"] == "PodScheduled"
    ]
    return f"{pod['metadata']['name']} waits: {' '.join(reasons) or 'the scheduler has not tried it'}"


async def _node(node: Node) -> NodeRecords:
    notes = (await node.bed.api.get(f"/api/v1/nodes/{node.name}"))["metadata"].get("annotations", {})
    index = {each.uuid: number for number, each in enumerate(node.stub.description.cards)}
    return NodeRecords(
        specs=cards_in_use(node, await node.containers()),
        record={
            uid: {index[each]: units for each, units in cards.items()}
            for uid, cards in units_in(await node.read(RECORD)).items()
        },
        assigned={
            uid: _sum(containers)
            for uid, containers in json.loads(notes.get(contract.ANN_ASSIGNED_NODE, "{}")).items()
        },
        checkpoint=_checkpoint(json.loads(await node.read(CHECKPOINT))),
        resources=_by_pod(await node.devices()),
    )


def cards_in_use(node: Node, containers: Iterable[Container]) -> dict[str, Counter[int]]:
    """Pod UID → GPU → units of its running containers, each spread evenly over its GPUs."""
    index = [each.uuid for each in node.stub.description.cards].index
    found: dict[str, Counter[int]] = defaultdict(Counter)
    for each in containers:
        found[each.uid].update(dict.fromkeys(map(index, each.gpus), each.units // len(each.gpus)))
    return dict(found)


def _sum(containers: Mapping[str, Mapping[str, int]]) -> Cards:
    total: Counter[int] = Counter()
    for cards in containers.values():
        total.update({int(card): units for card, units in cards.items()})
    return dict(total)


def _checkpoint(content: Mapping[str, Any]) -> dict[str, int]:
    """Pod UID → units of GPU memory in the checkpoint of the kubelet."""
    total: Counter[str] = Counter()
    for each in content["Data"]["PodDeviceEntries"] or ():
        if each["ResourceName"] == contract.RESOURCE_MEM:
            total[each["PodUID"]] += sum(map(len, each["DeviceIDs"].values()))
    return dict(total)


def _by_pod(devices: Iterable[ContainerDevices]) -> dict[str, int]:
    """Pod → units of GPU memory that PodResources reports."""
    total: Counter[str] = Counter()
    for each in devices:
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
