"""Which nodes other pods exclude: pod affinity, anti-affinity and topology spread constraints. Pure.

The rules are those of kube-scheduler's plugins InterPodAffinity and PodTopologySpread (1.37). A term that
selects namespaces by labels is not checked, because namespaces are not read.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from gpushare.overview.affinity import LabelSelector, PodTerm
from gpushare.overview.objects import ClusterNode, ClusterPod
from gpushare.overview.occupancy import PodLoad
from gpushare.overview.pod_spec import SpreadConstraint

Nodes = Mapping[str, ClusterNode]
Loads = Iterable[PodLoad]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of a pod. ``excludes`` is whether it keeps the pod off a node; ``text`` says why, in short."""

    kind: str
    text: str
    excludes: Callable[[ClusterNode], bool]


def rules_of(pod: ClusterPod, nodes: Nodes, loads: Loads) -> Iterator[Rule]:
    """The rules for a pod among bound pods; they stay true while these do not change."""
    placed = [each for each in loads if each.node in nodes]
    affinity = pod.spec.affinity
    if affinity and affinity.repelling:
        yield from (_repelling(pod, each, nodes, placed) for each in affinity.repelling if each.decidable)
    if affinity and affinity.attracting and all(each.decidable for each in affinity.attracting):
        yield _attracting(pod, affinity.attracting, nodes, placed)
    if repelled := _repelled(pod, nodes, placed):
        yield repelled
    hard = [c for c in pod.spec.topology_spread_constraints or () if c.when_unsatisfiable == "DoNotSchedule"]
    # Nodes without the label of one constraint count for none.
    counted = {name: each for name, each in nodes.items() if all(c.topology_key in each.labels for c in hard)}
    yield from (_spread(pod, each, counted, placed) for each in hard)


def _repelling(pod: ClusterPod, term: PodTerm, nodes: Nodes, loads: Loads) -> Rule:
    own, key = pod.metadata.namespace, term.topology_key
    taken = {_value(nodes, each, key) for each in loads if term.selects(own, each.namespace, each.labels)}
    text = f"pods with {term.label_selector} in its {key}, which its anti-affinity excludes"
    return Rule("pod-anti-affinity", text, lambda node: node.labels.get(key) in taken - {None})


def _attracting(pod: ClusterPod, terms: tuple[PodTerm, ...], nodes: Nodes, loads: Loads) -> Rule:
    own = pod.metadata.namespace
    near = [each for each in loads if all(term.selects(own, each.namespace, each.labels) for term in terms)]
    keys = dict.fromkeys(term.topology_key for term in terms)
    values = {key: {_value(nodes, each, key) for each in near} - {None} for key in keys}
    alone = not any(values.values()) and all(term.selects(own, own, pod.labels) for term in terms)
    wanted = " and ".join(f"pods with {term.label_selector}" for term in terms)
    text = f"no {wanted} in its {', '.join(values)}, which its pod affinity requires"

    def excludes(node: ClusterNode) -> bool:
        found = {key: node.labels.get(key) for key in values}
        if None in found.values():
            return True
        return not (alone or all(found[key] in values[key] for key in values))

    return Rule("pod-affinity", text, excludes)


def _repelled(pod: ClusterPod, nodes: Nodes, loads: Loads) -> Rule | None:
    taken = {
        (term.topology_key, value)
        for each in loads
        for term in each.repels
        if term.decidable and term.selects(each.namespace, pod.metadata.namespace, pod.labels)
        if (value := _value(nodes, each, term.topology_key)) is not None
    }
    text = "pods near it whose anti-affinity excludes this pod"
    return (
        Rule("pod-anti-affinity", text, lambda node: not taken.isdisjoint(node.labels.items()))
        if taken
        else None
    )


def _spread(pod: ClusterPod, rule: SpreadConstraint, nodes: Nodes, loads: Loads) -> Rule:
    key, selector = rule.topology_key, _like(pod, rule)
    domains = Counter(
        {value: 0 for each in nodes.values() if (value := _domain(pod, rule, each)) is not None}
    )
    for each in loads:
        node = nodes.get(each.node)
        value = _domain(pod, rule, node) if node else None
        counts = each.namespace == pod.metadata.namespace and not each.terminating
        if value is not None and counts and not selector.is_empty and selector.matches(each.labels):
            domains[value] += 1
    least = min(domains.values(), default=0) if len(domains) >= (rule.min_domains or 1) else 0
    most = rule.max_skew + least - selector.matches(pod.labels)
    text = f"more pods like it than maxSkew={rule.max_skew} of its topology spread over {key} allows"

    def excludes(node: ClusterNode) -> bool:
        value = node.labels.get(key)
        return value is None or domains[value] > most

    return Rule("topology-spread", text, excludes)


def _domain(pod: ClusterPod, rule: SpreadConstraint, node: ClusterNode) -> str | None:
    """The part of the cluster that a node is in; None for a node that does not count."""
    if rule.node_affinity_policy == "Honor" and not pod.selects(node):
        return None
    if rule.node_taints_policy == "Honor" and (pod.untolerated(node) or pod.kept_off_by_cordon(node)):
        return None
    return node.labels.get(rule.topology_key)


@dataclass(frozen=True, slots=True)
class _Like:
    """Which pods a constraint counts: those that ``chosen`` and ``same`` select, none without a selector.

    kube-scheduler counts no pods with a selector without conditions, but it selects the pod itself.
    """

    chosen: LabelSelector | None
    same: LabelSelector

    @property
    def is_empty(self) -> bool:
        chosen = self.chosen
        return chosen is not None and not (
            chosen.match_labels or chosen.match_expressions or self.same.match_labels
        )

    def matches(self, labels: Mapping[str, str]) -> bool:
        return self.chosen is not None and self.chosen.matches(labels) and self.same.matches(labels)


def _like(pod: ClusterPod, rule: SpreadConstraint) -> _Like:
    keys = {key: pod.labels[key] for key in rule.match_label_keys or () if key in pod.labels}
    return _Like(rule.label_selector, LabelSelector(match_labels=keys))


def _value(nodes: Nodes, load: PodLoad, key: str) -> str | None:
    return nodes[load.node].labels.get(key)
