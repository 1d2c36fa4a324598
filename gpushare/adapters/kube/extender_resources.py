"""The resources that the extender watches, and the conversion of their objects."""

from typing import Final

from msgspec import Struct, field

from gpushare.adapters.kube.pod_loads import LoadedPod, ObservedPod, observed_pod
from gpushare.adapters.kube.watch import Resource
from gpushare.adapters.kube.wire import BareMeta, WireConfigMap, WireNode, WirePod, core_node, pod_of
from gpushare.contract import SYSTEM_NAMESPACE, UNHEALTHY_KEY, UNHEALTHY_PREFIX
from gpushare.model.disruption import DisruptionBudget
from gpushare.model.objects import Node, Pod
from gpushare.model.selector import Selector, Term


def _pod(wire: WirePod) -> tuple[str, Pod] | None:
    pod = pod_of(wire)
    return (pod.uid, pod) if pod else None


def _node(wire: WireNode) -> tuple[str, Node]:
    return wire.metadata.name, core_node(wire)


def _unhealthy(wire: WireConfigMap) -> tuple[str, str] | None:
    """Return the node name and the list of its unhealthy GPUs as text."""
    name = wire.metadata.name
    if not name.startswith(UNHEALTHY_PREFIX):
        return None
    return name.removeprefix(UNHEALTHY_PREFIX), (wire.data or {}).get(UNHEALTHY_KEY, "")


# --- budgets ------------------------------------------------------------------------------------


class _Expression(Struct):
    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class _LabelSelector(Struct, rename="camel"):
    match_labels: dict[str, str] | None = None
    match_expressions: list[_Expression] | None = None


class _Spec(Struct):
    selector: _LabelSelector | None = None


class _Status(Struct, rename="camel"):
    disruptions_allowed: int = 0
    disrupted_pods: dict[str, str] | None = None


class WireBudget(Struct):
    """A PodDisruptionBudget with the fields that are read."""

    metadata: BareMeta = field(default_factory=BareMeta)
    spec: _Spec = field(default_factory=_Spec)
    status: _Status = field(default_factory=_Status)


_NOTHING: Final = Selector()
"""Without conditions: a budget with it selects no pod."""


def budget_of(wire: WireBudget) -> tuple[str, DisruptionBudget]:
    """The key and the budget of an object."""
    meta, status = wire.metadata, wire.status
    selector = _selector(wire.spec.selector) if wire.spec.selector else _NOTHING
    disrupted = frozenset(status.disrupted_pods or ())
    found = DisruptionBudget(meta.namespace, meta.name, selector, status.disruptions_allowed, disrupted)
    return f"{meta.namespace}/{meta.name}", found


def _selector(wire: _LabelSelector) -> Selector:
    """Return the selector; one with an unknown operator selects nothing, as in kube-scheduler."""
    terms = [Term(key, frozenset({value})) for key, value in (wire.match_labels or {}).items()]
    for expression in wire.match_expressions or ():
        term = _term(expression)
        if term is None:
            return _NOTHING
        terms.append(term)
    return Selector(tuple(terms))


def _term(wire: _Expression) -> Term | None:
    match wire.operator:
        case "In" | "NotIn" if wire.values:  # codespell:ignore notin
            return Term(wire.key, frozenset(wire.values), wanted=wire.operator == "In")
        case "Exists" | "DoesNotExist" if not wire.values:
            return Term(wire.key, wanted=wire.operator == "Exists")
        case _:
            return None


PODS: Resource[Pod] = Resource("pods", "/api/v1/pods", WirePod, _pod)
"""The pods that name a gpushare resource."""
ALL_PODS: Resource[ObservedPod] = Resource("pods", "/api/v1/pods", LoadedPod, observed_pod)
NODES: Resource[Node] = Resource("nodes", "/api/v1/nodes", WireNode, _node)
UNHEALTHY: Resource[str] = Resource(
    "configmaps", f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/configmaps", WireConfigMap, _unhealthy
)
BUDGETS: Resource[DisruptionBudget] = Resource(
    "poddisruptionbudgets", "/apis/policy/v1/poddisruptionbudgets", WireBudget, budget_of
)
