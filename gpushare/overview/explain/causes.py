"""The obstacles of nodes that have free units, as sentences and remedies. Pure.

Nodes with the same obstacles are one group: the sentence names all its obstacles, and its remedy clears them
all, so that each remedy alone is enough.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gpushare.contract import RESOURCE_MIG_PREFIX, RESOURCE_WHOLE_GPU
from gpushare.model.demand import NO_WHOLE_GPUS
from gpushare.model.resource_names import meant
from gpushare.overview.explain.advice import Advice
from gpushare.overview.explain.obstacles import Obstacle, ObstacleKind
from gpushare.overview.objects import ClusterNode
from gpushare.overview.requests import number, spelled_out

_SHOWN: Final = 3
_GROUPS: Final = 5
_WORTH: Final = 0.75
"""A smaller request is a remedy if it is at least this part of the present one."""
_OF_KUBERNETES: Final = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""Taints that Kubernetes removes itself once a node has recovered."""


@dataclass(frozen=True, slots=True)
class Excluded:
    """A node with free units, and what excludes it."""

    node: ClusterNode
    obstacles: tuple[Obstacle, ...]


@dataclass(frozen=True, slots=True)
class _Group:
    """Nodes with the same obstacles."""

    nodes: tuple[Excluded, ...]

    @property
    def size(self) -> int:
        return len(self.nodes)

    @property
    def length(self) -> int:
        return len(self.nodes[0].obstacles)

    @property
    def where(self) -> str:
        names = [each.node.name for each in self.nodes[:_SHOWN]]
        more = [f"{self.size - _SHOWN} more"] if self.size > _SHOWN else []
        return f"node{'s' if self.size > 1 else ''} {_joined([*names, *more])}"

    @property
    def mismatches(self) -> int:
        """How many labels lack that the pod selects: its author has the nodes with the fewest in mind."""
        chosen = (ObstacleKind.SELECTOR, ObstacleKind.AFFINITY)
        return sum(each.kind in chosen for each in self.nodes[0].obstacles)

    def columns(self) -> Iterator[tuple[Obstacle, ...]]:
        """Each obstacle, as it is on each of the nodes."""
        return zip(*(each.obstacles for each in self.nodes), strict=True)


def _joined(words: Sequence[str]) -> str:
    return " and ".join((", ".join(words[:-1]), words[-1])) if len(words) > 1 else words[0]


def sentences(excluded: Iterable[Excluded], needs: Mapping[str, int]) -> list[str]:
    """What excludes the nodes that come closest to what the pod selects; the causes of most nodes first."""
    groups = _groups(excluded)
    least = min(group.mismatches for group in groups)
    close = sorted((g for g in groups if g.mismatches == least), key=lambda g: (-g.size, g.length, g.where))
    found = [
        "; ".join(_sentence(column, group, needs) for column in group.columns()) for group in close[:_GROUPS]
    ]
    return [*found, f"{len(close) - _GROUPS} more causes on other nodes"] if len(close) > _GROUPS else found


def clearing(excluded: Iterable[Excluded], needs: Mapping[str, int]) -> list[Advice]:
    """What clears the obstacles of a group of nodes: of the closest, with the fewest obstacles, first."""
    groups = sorted(
        _groups(excluded),
        key=lambda group: (group.mismatches, group.length, -group.size, group.where),
    )
    return [_advice(group, needs) for group in groups[:_SHOWN]]


def _groups(excluded: Iterable[Excluded]) -> list[_Group]:
    found: dict[tuple[tuple[str, str], ...], list[Excluded]] = {}
    for each in excluded:
        found.setdefault(tuple((o.kind, o.key) for o in each.obstacles), []).append(each)
    return [_Group(tuple(each)) for each in found.values()]


def _sentence(column: tuple[Obstacle, ...], group: _Group, needs: Mapping[str, int]) -> str:
    first, where, many = column[0], group.where, group.size > 1
    match first.kind:
        case ObstacleKind.CORDONED:
            found = f"{where} {'are' if many else 'is'} cordoned"
        case ObstacleKind.SELECTOR:
            found = f"it selects nodes with {first.key}, and {where} {_instead(first.key, group)}"
        case ObstacleKind.AFFINITY:
            found = (
                f"its node affinity requires {first.key}, which {where} {'do' if many else 'does'} not meet"
            )
        case ObstacleKind.TAINT:
            found = f"it does not tolerate the taint {first.key} of {where}"
        case ObstacleKind.PODS:
            found = f"{where} {'have' if many else 'has'} as many pods as the kubelet takes ({first.total})"
        case ObstacleKind.RESOURCE:
            found = _shortage(column, group, needs)
        case ObstacleKind.PORT:
            found = f"its host port {first.key} is in use on {where}"
        case ObstacleKind.VOLUME:
            name, _, place = first.key.partition(": ")
            found = f"the volume of its claim {name} needs {place}, and it fits on {where} only"
        case ObstacleKind.NEIGHBOURS:
            found = f"{where} {'have' if many else 'has'} {first.key}"
    return found


def _instead(wanted: str, group: _Group) -> str:
    """The values that the nodes have of a label which they should have."""
    key = wanted.partition("=")[0]
    values = sorted({each.node.labels[key] for each in group.nodes if key in each.node.labels})
    has = "have" if group.size > 1 else "has"
    return (
        f"{has} {_joined([f'{key}={value}' for value in values[:_SHOWN]])}"
        if values
        else f"{has} no label {key}"
    )


def _shortage(column: tuple[Obstacle, ...], group: _Group, needs: Mapping[str, int]) -> str:
    resource, best = column[0].key, _best(column)
    asked = f"it requests {spelled_out(resource, needs[resource])}"
    if not any(each.total for each in column):
        return f"{asked}, and {group.where} {'offer' if group.size > 1 else 'offers'} none"
    free = number(resource, max(0, column[best].free))
    return f"{asked}, and {group.where} {'have at most' if group.size > 1 else 'has'} {free} free"


def _best(column: tuple[Obstacle, ...]) -> int:
    """The node with the most free of it."""
    return max(range(len(column)), key=lambda index: column[index].free)


def _advice(group: _Group, needs: Mapping[str, int]) -> Advice:
    """One remedy for all obstacles of the group, on the node where it takes least."""
    columns = list(group.columns())
    at = next((_best(each) for each in columns if each[0].kind is ObstacleKind.RESOURCE), 0)
    chosen = group.nodes[at]
    steps = [_step(obstacle, chosen.node, needs) for obstacle in chosen.obstacles]
    text = "; and ".join(step for step, _ in steps)
    commands = [command for _, command in steps]
    command = " && ".join(commands) if all(commands) else ""
    return Advice(str(chosen.obstacles[0].kind), text, command, chosen.node.name)


def _step(obstacle: Obstacle, node: ClusterNode, needs: Mapping[str, int]) -> tuple[str, str]:
    """One step in words, and its command if there is one."""
    name, key = node.name, obstacle.key
    match obstacle.kind:
        case ObstacleKind.CORDONED:
            found = f"uncordon node {name}", f"kubectl uncordon {name}"
        case ObstacleKind.SELECTOR:
            found = _relabelled(key, node)
        case ObstacleKind.AFFINITY:
            found = (
                f"change the node affinity of the pod so that it admits node {name}, or label that node",
                "",
            )
        case ObstacleKind.TAINT:
            found = _tolerated(key, name)
        case ObstacleKind.PODS:
            found = f"delete pods of node {name}, or raise maxPods of its kubelet ({obstacle.total})", ""
        case ObstacleKind.RESOURCE:
            found = _resource(obstacle, name, needs[key]), ""
        case ObstacleKind.PORT:
            found = f"remove the host port {key}, and use a Service: only one pod of a node can have it", ""
        case ObstacleKind.VOLUME:
            claim, _, place = key.partition(": ")
            found = (
                f"add a node with free GPUs that meets {place}, or make the claim {claim} anew elsewhere",
                "",
            )
        case ObstacleKind.NEIGHBOURS:
            found = f"relax that rule of the pods, or free GPUs on another node than {name}", ""
    return found


def _relabelled(wanted: str, node: ClusterNode) -> tuple[str, str]:
    key, _, value = wanted.partition("=")
    if key in node.labels:
        has = node.labels[key]
        step = (
            f"write {key}: {has} instead of {value} in the nodeSelector of the pod: node {node.name} has it"
        )
        return step, ""
    return (
        f"remove {key} from the nodeSelector of the pod, or label node {node.name} with it",
        f"kubectl label node {node.name} {wanted}",
    )


def _tolerated(text: str, node: str) -> tuple[str, str]:
    pair, _, effect = text.rpartition(":")
    key, equals, value = pair.partition("=")
    if key.startswith(_OF_KUBERNETES):
        return (
            f"wait until node {node} has recovered: Kubernetes removes {key} then",
            f"kubectl describe node {node}",
        )
    match = f"operator: Equal, value: {value}" if equals else "operator: Exists"
    toleration = f"{{key: {key}, {match}, effect: {effect}}}"
    step = f"add {toleration} to the tolerations of the pod, or remove the taint of node {node}"
    return step, f"kubectl taint node {node} {key}:{effect}-"


def _resource(obstacle: Obstacle, node: str, need: int) -> str:
    resource, free = obstacle.key, max(0, obstacle.free)
    if resource == RESOURCE_WHOLE_GPU or resource.startswith(RESOURCE_MIG_PREFIX):
        return f"remove {resource} from the pod: {NO_WHOLE_GPUS}"
    if hint := meant(resource, need):
        return f"remove {resource} from the pod ({hint})"
    if free >= _WORTH * need:
        return f"request at most {spelled_out(resource, free, is_need=False)}: node {node} has them free"
    asked = spelled_out(resource, need)
    if obstacle.total >= need:
        return f"free {spelled_out(resource, need - free)} on node {node}, or add a node with {asked} free"
    if not obstacle.total:
        return f"add a node with free GPUs that offers {resource}, or remove {resource} from the pod"
    return f"add a node with free GPUs and {asked}: node {node} has {number(resource, obstacle.total)} in all"
