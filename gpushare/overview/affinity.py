"""The node affinity that a pod requires, as kube-scheduler matches it. Pure.

See https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#node-affinity. What does not
belong here: preferred terms, which exclude no node.
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
                return _is_beyond(value, values[0], above=self.operator == "Gt")
            case _:
                return False


def _is_beyond(value: str | None, limit: str, *, above: bool) -> bool:
    """Whether an integer is above or below the limit; False if one of them is none."""
    try:
        number, bound = int(value or ""), int(limit)
    except ValueError:
        return False
    return number > bound if above else number < bound


class _Term(Struct, rename="camel"):
    match_expressions: list[Expression] | None = None
    match_fields: list[Expression] | None = None

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether all conditions are met; a term without any matches no node."""
        expressions, fields = self.match_expressions or (), self.match_fields or ()
        met = [
            *(each.matches(labels) for each in expressions),
            *(each.matches({_NAME: name}) for each in fields),
        ]
        return bool(met) and all(met)


class _Required(Struct, rename="camel"):
    node_selector_terms: tuple[_Term, ...] = ()


class _NodeAffinity(Struct):
    required: _Required | None = field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")


class Affinity(Struct, rename="camel"):
    """The affinity of a pod, of which only the part about nodes is read."""

    node_affinity: _NodeAffinity | None = None

    def admits(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether a node with this name and these labels meets one of the required terms."""
        required = self.node_affinity.required if self.node_affinity else None
        return required is None or any(term.matches(name, labels) for term in required.node_selector_terms)
