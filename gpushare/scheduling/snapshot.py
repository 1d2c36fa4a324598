"""The books of a cluster from one list of its nodes and pods, for programs that do not watch it.

They are equal to the books of a ledger that has seen the same objects; a property test compares both. Unlike
the ledger, this module needs no persistent maps, which the command line does not have.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from gpushare.model.demand import Demand
from gpushare.model.objects import Node, Pod
from gpushare.scheduling.book import Book, Nominee, Reservation, nominee_of


def _full_name(pod: Pod) -> str:
    return pod.full_name


def books_of(
    nodes: Iterable[Node],
    pods: Iterable[Pod],
    unhealthy: Mapping[str, frozenset[int]],
    name_of: Callable[[Pod], str] = _full_name,
) -> dict[str, Book]:
    """The book of each node by name. ``unhealthy`` are indices of GPUs by node.

    ``name_of`` names a pod in the texts about the books.
    """
    reservations: defaultdict[str, dict[str, Reservation]] = defaultdict(dict)
    nominees: defaultdict[str, dict[str, Nominee]] = defaultdict(dict)
    for pod in pods:
        demand = pod.demand if isinstance(pod.demand, Demand) else pod.demand.at_least
        if pod.finished or demand is None:
            continue
        if pod.node is not None:
            reservations[pod.node][pod.uid] = _reservation(pod, name_of(pod), demand)
        elif pod.nominated is not None and not pod.terminating and demand is pod.demand:
            nominees[pod.nominated][pod.uid] = replace(nominee_of(pod, demand), pod=name_of(pod))
    return {
        node.name: Book(
            node.name,
            node,
            unhealthy.get(node.name, frozenset()),
            reservations[node.name],
            nominees[node.name],
        )
        for node in nodes
    }


def _reservation(pod: Pod, name: str, demand: Demand) -> Reservation:
    return Reservation(
        pod.uid,
        name,
        demand,
        pod.claim,
        terminating=pod.terminating,
        priority=pod.priority,
        mode=pod.mode,
        labels=pod.labels,
    )
