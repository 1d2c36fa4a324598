"""Why kube-scheduler does not consider a node for a pod, apart from GPU units. Pure.

Each check is that of a plugin of kube-scheduler 1.37: NodeUnschedulable, NodeAffinity, TaintToleration,
NodeResourcesFit, NodePorts, VolumeBinding, VolumeZone, InterPodAffinity, PodTopologySpread. What is not known
is not checked: limits of volumes on a node, storage capacity, and devices of DRA.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Final

from gpushare.overview.neighbours import Rule, rules_of
from gpushare.overview.objects import ClusterNode, ClusterPod
from gpushare.overview.occupancy import NodeUse, conflict, host_ports
from gpushare.overview.requests import (
    CPU,
    MEMORY,
    PODS,
    STORAGE,
    amount_of,
    number,
    requests_of,
    spelled_out,
)
from gpushare.overview.storage import Claim, Storage
from gpushare.overview.surroundings import Surroundings

_ALWAYS_OFFERED: Final = (CPU, MEMORY, STORAGE)
"""Every kubelet offers them, so a node without them has not reported yet."""
_UNUSED: Final = NodeUse()


class ObstacleKind(StrEnum):
    """What excludes a node; resources come last, as in kube-scheduler's order of plugins."""

    CORDONED = "cordoned"
    SELECTOR = "node-selector"
    AFFINITY = "node-affinity"
    TAINT = "taint"
    PODS = "pods"
    RESOURCE = "resource"
    PORT = "host-port"
    VOLUME = "volume"
    NEIGHBOURS = "neighbours"


@dataclass(frozen=True, slots=True)
class Obstacle:
    """What excludes one node. Obstacles with the same kind and key have one cause, on several nodes.

    ``free`` and ``total`` are amounts of a resource, and of pods.
    """

    kind: ObstacleKind
    key: str
    text: str
    free: int = 0
    total: int = 0


Check = Callable[[ClusterNode], Iterator[Obstacle]]


class NodeChecks:
    """The checks of one pod, prepared once for all nodes."""

    def __init__(self, pod: ClusterPod, around: Surroundings, nodes: Mapping[str, ClusterNode]) -> None:
        self._checks: tuple[Check, ...] = (
            partial(_labels, pod),
            partial(_taints, pod),
            partial(_room, dict(requests_of(pod.spec)), around.uses),
            partial(_ports, pod, around.uses),
            partial(_volumes, pod, around.storage),
            partial(_neighbours, tuple(rules_of(pod, nodes, around.loads))),
        )

    def obstacles(self, node: ClusterNode) -> list[Obstacle]:
        """What excludes the node; empty if only the GPUs decide."""
        return [found for check in self._checks for found in check(node)]


def _labels(pod: ClusterPod, node: ClusterNode) -> Iterator[Obstacle]:
    if pod.kept_off_by_cordon(node):
        yield Obstacle(ObstacleKind.CORDONED, "", "the node is cordoned")
    for key, value in (pod.spec.node_selector or {}).items():
        if node.labels.get(key) != value:
            text = f"the node has no label {key}={value}, which the pod selects"
            yield Obstacle(ObstacleKind.SELECTOR, f"{key}={value}", text)
    terms = pod.spec.affinity.node_terms if pod.spec.affinity else None
    if terms and not terms.admits(node.name, node.labels):
        text = f"the node does not meet the node affinity of the pod: {terms}"
        yield Obstacle(ObstacleKind.AFFINITY, str(terms), text)


def _taints(pod: ClusterPod, node: ClusterNode) -> Iterator[Obstacle]:
    for taint in pod.untolerated(node):
        yield Obstacle(ObstacleKind.TAINT, str(taint), f"the pod does not tolerate the taint {taint}")


def _room(needs: Mapping[str, int], uses: Mapping[str, NodeUse], node: ClusterNode) -> Iterator[Obstacle]:
    use = uses.get(node.name, _UNUSED)
    most = node.allocatable(PODS)
    if PODS in node.offers and use.pods >= most:
        text = f"{use.pods} of at most {most} pods are there"
        yield Obstacle(ObstacleKind.PODS, PODS, text, most - use.pods, most)
    for resource, need in needs.items():
        if resource in _ALWAYS_OFFERED and resource not in node.offers:
            continue
        total = amount_of(resource, node.offers.get(resource, 0))
        free = total - use.requests.get(resource, 0)
        if need > free:
            text = (
                f"the pod requests {spelled_out(resource, need)}, "
                f"{number(resource, max(0, free))} of {number(resource, total)} free"
            )
            yield Obstacle(ObstacleKind.RESOURCE, resource, text, free, total)


def _ports(pod: ClusterPod, uses: Mapping[str, NodeUse], node: ClusterNode) -> Iterator[Obstacle]:
    taken = uses.get(node.name, _UNUSED).ports
    for wanted in host_ports(pod):
        if any(conflict(wanted, each) for each in taken):
            name = f"{wanted[2]}/{wanted[0]}"
            yield Obstacle(ObstacleKind.PORT, name, f"another pod has the host port {name} there")


def _volumes(pod: ClusterPod, storage: Storage | None, node: ClusterNode) -> Iterator[Obstacle]:
    for name in pod.claims if storage else ():
        claim = storage.claims.get(name) if storage else None
        if storage and claim and (where := _out_of_reach(claim, storage, node)):
            text = f"the volume of claim {name} cannot be used there: it needs {where}"
            yield Obstacle(ObstacleKind.VOLUME, f"{name}: {where}", text)


def _out_of_reach(claim: Claim, storage: Storage, node: ClusterNode) -> str:
    """What the volume of a claim needs, and the node is not; empty if the node can use the volume."""
    if not claim.bound:
        selected = claim.selected_node
        return f"node {selected}, for which it is being made" if selected not in ("", node.name) else ""
    volume = (storage.volumes or {}).get(claim.spec.volume_name)
    if volume is None:
        return ""
    if volume.terms and not volume.terms.admits(node.name, node.labels):
        return str(volume.terms)
    zones = volume.zones
    # As VolumeZone: a node without any such label is taken to be in the zone.
    if not any(key in node.labels for key in zones):
        return ""
    wrong = [
        f"{key} In ({', '.join(sorted(zones[key]))})"
        for key in zones
        if node.labels.get(key) not in zones[key]
    ]
    return " and ".join(wrong)


def _neighbours(rules: tuple[Rule, ...], node: ClusterNode) -> Iterator[Obstacle]:
    for rule in rules:
        if rule.excludes(node):
            yield Obstacle(ObstacleKind.NEIGHBOURS, rule.text, f"the node has {rule.text}")
