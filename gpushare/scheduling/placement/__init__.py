"""Placement policies: which GPUs of a node a pod gets, and how well the node suits the pod.

A new policy is one new module with a class that satisfies ``Policy``, and its name and entry here. A test
finds the lists for users that must have it too.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

from gpushare.contract import LABEL_PLACEMENT
from gpushare.model.demand import Demand
from gpushare.model.objects import Node
from gpushare.scheduling.book import Book, CardUsage
from gpushare.scheduling.placement.binpack import Binpack
from gpushare.scheduling.placement.policy import Policy
from gpushare.scheduling.placement.spread import Spread
from gpushare.scheduling.placement.topology import Topology


class Placement(StrEnum):
    """Which GPUs of a node are for a pod: the fullest, the emptiest, or those with the best links."""

    BINPACK = "binpack"
    SPREAD = "spread"
    TOPOLOGY = "topology"


def _policy(name: Placement) -> Policy:
    match name:
        case Placement.BINPACK:
            return Binpack()
        case Placement.SPREAD:
            return Spread()
        case Placement.TOPOLOGY:
            return Topology()


DEFAULT: Final = Placement.BINPACK.value
POLICIES: Final[Mapping[str, Policy]] = {name.value: _policy(name) for name in Placement}


def policy_name(book: Book, requested: str | None = None) -> str:
    """The name of the policy for a pod on a node: the pod's own, then the node's label, then binpack.

    Unknown names are ignored.
    """
    label = book.node.placement if book.node else None
    return next((name for name in (requested, label) if name in POLICIES and name is not None), DEFAULT)


def placement_problem(node: Node) -> str | None:
    """Why the node's label names no policy, and which there are; None if it names one or is absent."""
    if node.placement is None or node.placement in POLICIES:
        return None
    return (
        f"label {LABEL_PLACEMENT}={node.placement!r} is not one of {', '.join(POLICIES)}; the policy of the "
        f"node is {DEFAULT}"
    )


def choose(
    book: Book, fitting: Sequence[CardUsage], demand: Demand, requested: str | None = None
) -> tuple[int, ...] | None:
    """The indices of the GPUs for the demand, ascending, chosen from those that fit; None if too few fit."""
    if not 0 < demand.cards <= len(fitting):
        return None
    usages = POLICIES[policy_name(book, requested)].chosen(book, fitting, demand)
    return tuple(sorted(usage.card.index for usage in usages))


def score(book: Book, chosen: Sequence[CardUsage], demand: Demand, requested: str | None = None) -> float:
    """How well the node suits the demand on the chosen GPUs, from 0 to 1."""
    return POLICIES[policy_name(book, requested)].score(book, chosen, demand)
