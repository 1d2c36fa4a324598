"""What can happen to a ledger: what the API shows, and what we decide. Values; the rules are the ledger's."""

from dataclasses import dataclass

from gpushare.model.annotations import Shares
from gpushare.model.demand import Demand
from gpushare.model.objects import Node, Pod


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """A node was added or changed."""

    node: Node


@dataclass(frozen=True, slots=True)
class NodeGone:
    """A node was deleted. Its pods hold what they hold until they are gone themselves."""

    name: str


@dataclass(frozen=True, slots=True)
class PodSeen:
    """A pod was added or changed."""

    pod: Pod


@dataclass(frozen=True, slots=True)
class PodGone:
    """A pod is deleted from the API."""

    uid: str


@dataclass(frozen=True, slots=True)
class UnhealthySeen:
    """The cards of a node that are out of service now."""

    node: str
    indices: frozenset[int]


@dataclass(frozen=True, slots=True)
class Reserved:
    """We decided where a pod goes and are about to tell the API."""

    pod: Pod
    demand: Demand
    node: str
    shares: Shares


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The API said yes to our bind."""

    uid: str


@dataclass(frozen=True, slots=True)
class Released:
    """Our bind certainly did not take place."""

    uid: str


Event = NodeSeen | NodeGone | PodSeen | PodGone | UnhealthySeen | Reserved | Confirmed | Released
