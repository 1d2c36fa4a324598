"""Ledger events: changes that the API shows, and the extender's own decisions. The ledger applies them."""

from dataclasses import dataclass

from gpushare.model.annotations import Shares
from gpushare.model.demand import Demand
from gpushare.model.objects import Node, Pod
from gpushare.model.resources import Load


@dataclass(frozen=True, slots=True)
class NodeObserved:
    """A node was added or changed."""

    node: Node


@dataclass(frozen=True, slots=True)
class NodeDeleted:
    """A node was deleted. The reservations of its pods stay until the pods are gone."""

    name: str


@dataclass(frozen=True, slots=True)
class PodObserved:
    """A pod was added or changed."""

    pod: Pod


@dataclass(frozen=True, slots=True)
class LoadObserved:
    """The CPU and memory that a pod requests, with or without GPUs, before the pod itself is observed."""

    uid: str
    load: Load


@dataclass(frozen=True, slots=True)
class PodDeleted:
    """A pod was deleted from the API, or one without GPUs has finished."""

    uid: str


@dataclass(frozen=True, slots=True)
class UnhealthyObserved:
    """The GPUs of a node that an administrator or the agent has listed as unhealthy."""

    node: str
    indices: frozenset[int]


@dataclass(frozen=True, slots=True)
class Reserved:
    """A node and its GPUs were chosen for a pod; the bind POST follows."""

    pod: Pod
    demand: Demand
    node: str
    shares: Shares


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The API server accepted the bind."""

    uid: str


@dataclass(frozen=True, slots=True)
class Released:
    """The bind certainly did not take effect."""

    uid: str


LedgerEvent = (
    NodeObserved
    | NodeDeleted
    | PodObserved
    | LoadObserved
    | PodDeleted
    | UnhealthyObserved
    | Reserved
    | Confirmed
    | Released
)
