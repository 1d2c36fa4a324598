"""Nodes that other pods exclude: topology spread, pod affinity and host ports, as in kube-scheduler."""

from typing import Any

import msgspec
import pytest

from gpushare.overview.neighbours import rules_of
from gpushare.overview.objects import ClusterNode, ClusterPod
from gpushare.overview.occupancy import ALL_ADDRESSES, HostPort, conflict, load_of

Json = dict[str, Any]
WEB = {"matchLabels": {"app": "web"}}


def node(name: str, taint: str = "", **labels: str) -> ClusterNode:
    taints = [{"key": taint, "effect": "NoSchedule"}] if taint else []
    return msgspec.convert(
        {"metadata": {"name": name, "labels": labels}, "spec": {"taints": taints}}, ClusterNode
    )


def pod(
    on: str | None = None, *, namespace: str = "ml", leaving: bool = False, app: str = "web", **spec: Any
) -> ClusterPod:
    meta: Json = {"name": "p", "namespace": namespace, "labels": {"app": app}}
    if leaving:
        meta["deletionTimestamp"] = "2026-11-29T00:00:00Z"
    return msgspec.convert({"metadata": meta, "spec": {"nodeName": on, **spec}}, ClusterPod)


def spread(**more: Any) -> ClusterPod:
    rule = {"topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": WEB, **more}
    return pod(topologySpreadConstraints=[rule])


def excluded(who: ClusterPod, nodes: list[ClusterNode], *bound: ClusterPod) -> set[str]:
    by_name = {each.name: each for each in nodes}
    rules = list(rules_of(who, by_name, filter(None, map(load_of, bound))))
    return {each.name for each in nodes if any(rule.excludes(each) for rule in rules)}


TWO = [node("a", zone="1"), node("b", zone="2")]


@pytest.mark.parametrize(
    ("who", "bound", "expected"),
    [
        (spread(), (), set()),
        (spread(), (pod("a"),), {"a"}),
        (spread(maxSkew=2), (pod("a"),), set()),
        (spread(), (pod("a", leaving=True),), set()),
        (spread(), (pod("a", namespace="other"),), set()),
        (spread(), (pod("a", app="db"),), set()),
        (spread(minDomains=3), (pod("a"), pod("b")), {"a", "b"}),
        (spread(whenUnsatisfiable="ScheduleAnyway"), (pod("a"),), set()),
        (spread(topologyKey="rack"), (), {"a", "b"}),
    ],
)
def test_topology_spread(who: ClusterPod, bound: tuple[ClusterPod, ...], expected: set[str]) -> None:
    assert excluded(who, TWO, *bound) == expected


def test_a_domain_that_the_pod_does_not_tolerate_counts_unless_the_rule_says_otherwise() -> None:
    nodes = [node("a", zone="1"), node("b", "gpu", zone="2")]
    assert excluded(spread(), nodes, pod("a")) == {"a"}
    assert excluded(spread(nodeTaintsPolicy="Honor"), nodes, pod("a")) == set()


def test_a_cordoned_node_is_an_untolerated_one() -> None:
    nodes = [node("a", zone="1"), node("b", zone="2")]
    nodes[1].spec.unschedulable = True
    assert excluded(spread(nodeTaintsPolicy="Honor"), nodes, pod("a")) == set()


def test_a_node_counts_only_with_the_labels_of_all_constraints() -> None:
    by_zone = {"topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": WEB}
    by_host = {**by_zone, "topologyKey": "host"}
    nodes = [node("a", zone="1", host="a"), node("b", host="b")]
    assert excluded(pod(topologySpreadConstraints=[by_zone, by_host]), nodes, pod("a")) == {"b"}


def test_a_selector_without_conditions_counts_no_pods() -> None:
    assert excluded(spread(labelSelector={}), TWO, pod("a"), pod("a")) == set()
    assert excluded(spread(labelSelector={}, matchLabelKeys=["app"]), TWO, pod("a")) == {"a"}


def rule(kind: str, **more: Any) -> Json:
    term = {"topologyKey": "zone", "labelSelector": WEB, **more}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


@pytest.mark.parametrize(
    ("affinity", "bound", "expected"),
    [
        (rule("podAntiAffinity"), pod("a"), {"a"}),
        (rule("podAntiAffinity"), pod("a", namespace="other"), set()),
        (rule("podAntiAffinity", namespaceSelector={}), pod("a", namespace="other"), {"a"}),
        (rule("podAntiAffinity", namespaces=["other"]), pod("a", namespace="other"), {"a"}),
        (rule("podAntiAffinity", namespaceSelector={"matchLabels": {"x": "y"}}), pod("a"), set()),
        (rule("podAntiAffinity", labelSelector=None), pod("a"), set()),
        (rule("podAffinity"), pod("a"), {"b"}),
        (rule("podAffinity", topologyKey="rack"), pod("a"), {"a", "b"}),
    ],
)
def test_pod_affinity(affinity: Json, bound: ClusterPod, expected: set[str]) -> None:
    assert excluded(pod(affinity=affinity), TWO, bound) == expected


def test_the_first_pod_of_a_domain_goes_anywhere_although_others_are_on_nodes_without_the_label() -> None:
    nodes = [*TWO, node("c")]
    assert excluded(pod(affinity=rule("podAffinity")), nodes, pod("c")) == {"c"}


def test_the_anti_affinity_of_a_bound_pod_excludes_others_from_its_domain() -> None:
    assert excluded(pod(), TWO, pod("b", affinity=rule("podAntiAffinity"))) == {"b"}


@pytest.mark.parametrize(
    ("wanted", "taken", "same"),
    [
        (("TCP", ALL_ADDRESSES, 80), ("TCP", "10.0.0.1", 80), True),
        (("TCP", "10.0.0.2", 80), ("TCP", "10.0.0.1", 80), False),
        (("UDP", ALL_ADDRESSES, 80), ("TCP", ALL_ADDRESSES, 80), False),
        (("TCP", ALL_ADDRESSES, 81), ("TCP", ALL_ADDRESSES, 80), False),
    ],
)
def test_host_ports(wanted: HostPort, taken: HostPort, *, same: bool) -> None:
    assert conflict(wanted, taken) is same
