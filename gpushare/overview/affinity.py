"""The affinity that a pod requires, to nodes and to other pods, as kube-scheduler matches it. Pure.

See https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/. What does not belong here:
preferred terms, which exclude no node.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct, field

_NAME: Final = "metadata.name"
"""The only field that a term can match."""


class Expression(Struct):
    """A condition on one label or field."""

    key: str = ""
    operator: str = ""
    values: list[str] | None = None

    def __str__(self) -> str:
        values = f" ({', '.join(self.values)})" if self.values else ""
        return f"{self.key} {self.operator}{values}"

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels meet it; an unknown operator is met by none."""
        value, values = labels.get(self.key), self.values or ()
        match self.operator:
            case "In":
                return value in values
            case "NotIn":  # codespell:ignore notin
                return value not in values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case "Gt" | "Lt" if len(values) == 1:
                return is_beyond(value, values[0], above=self.operator == "Gt")
            case _:
                return False


def is_beyond(value: str | None, limit: str, *, above: bool) -> bool:
    """Whether an integer is above or below the limit; False if one of them is none."""
    try:
        number, bound = int(value or ""), int(limit)
    except ValueError:
        return False
    return number > bound if above else number < bound


class NodeTerm(Struct, rename="camel"):
    """Conditions on a node, of which all must be met."""

    match_expressions: list[Expression] | None = None
    match_fields: list[Expression] | None = None

    def __str__(self) -> str:
        return " and ".join(map(str, (*(self.match_expressions or ()), *(self.match_fields or ()))))

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether all conditions are met; a term without any matches no node."""
        expressions, fields = self.match_expressions or (), self.match_fields or ()
        met = [
            *(each.matches(labels) for each in expressions),
            *(each.matches({_NAME: name}) for each in fields),
        ]
        return bool(met) and all(met)


class NodeTerms(Struct, rename="camel"):
    """Terms of which a node must match one."""

    node_selector_terms: tuple[NodeTerm, ...] = ()

    def __str__(self) -> str:
        return ", or ".join(map(str, self.node_selector_terms))

    def admits(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether a node with this name and these labels matches a term."""
        return any(term.matches(name, labels) for term in self.node_selector_terms)


class _NodeAffinity(Struct):
    required: NodeTerms | None = field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")


class LabelSelector(Struct, rename="camel"):
    """Conditions on labels; without any, it selects everything."""

    match_labels: dict[str, str] | None = None
    match_expressions: list[Expression] | None = None

    def __str__(self) -> str:
        pairs = (f"{key}={value}" for key, value in (self.match_labels or {}).items())
        return ", ".join((*pairs, *map(str, self.match_expressions or ()))) or "every pod"

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels meet all conditions."""
        return all(labels.get(key) == value for key, value in (self.match_labels or {}).items()) and all(
            each.matches(labels) for each in self.match_expressions or ()
        )


class PodTerm(Struct, rename="camel"):
    """Pods, and the label of nodes whose values divide the cluster."""

    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: list[str] | None = None
    namespace_selector: LabelSelector | None = None

    @property
    def decidable(self) -> bool:
        """Whether no label of a namespace decides, which is not read."""
        selector = self.namespace_selector
        return selector is None or not (selector.match_labels or selector.match_expressions)

    def selects(self, own: str, namespace: str, labels: Mapping[str, str]) -> bool:
        """Whether the term of a pod in namespace ``own`` selects a pod; none without a selector."""
        everywhere = self.namespace_selector is not None
        inside = everywhere or namespace in (self.namespaces or (own,))
        return inside and self.label_selector is not None and self.label_selector.matches(labels)


class _PodAffinity(Struct):
    required: tuple[PodTerm, ...] | None = field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(Struct, rename="camel"):
    """The affinity of a pod."""

    node_affinity: _NodeAffinity | None = None
    pod_affinity: _PodAffinity | None = None
    pod_anti_affinity: _PodAffinity | None = None

    @property
    def node_terms(self) -> NodeTerms | None:
        """What a node must match; None without a requirement."""
        return self.node_affinity.required if self.node_affinity else None

    @property
    def attracting(self) -> tuple[PodTerm, ...]:
        """The pods that must be near."""
        return (self.pod_affinity.required if self.pod_affinity else None) or ()

    @property
    def repelling(self) -> tuple[PodTerm, ...]:
        """The pods that must not be near."""
        return (self.pod_anti_affinity.required if self.pod_anti_affinity else None) or ()

    def admits(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether a node with this name and these labels meets one of the required terms."""
        return self.node_terms is None or self.node_terms.admits(name, labels)
