"""Nodes that do not exist yet: what an autoscaler could add, described by an example of such a node.

The example is a Node object that the caller carries: a copy of a node of the same group, or one made from the
settings of an empty group. The state of single GPUs belongs to the machine that was copied. A template has no
pods: the extender protocol does not name the pods that a simulation has placed there before.
"""

from collections.abc import Generator, Iterable
from dataclasses import replace
from typing import Final

from immutables import Map

from gpushare.model.objects import Node
from gpushare.scheduling.book import Book
from gpushare.scheduling.ledger import Ledger

_NEW_UUID: Final = "new"
"""None that a pod can name, be it to use that GPU or to avoid it."""
_PER_STEP: Final = 50
"""Templates between two yields. A book takes 20 µs."""


def as_new(node: Node) -> Node:
    """The node as a machine that has just started: its GPUs are healthy, free and not known yet.

    ``closed`` stays: of a node that takes no pods, another one would not help either.
    """
    cards = tuple(
        replace(card, uuid=_NEW_UUID, healthy=True, whole_gpu_pods=(), closed="", fault="")
        for card in node.cards
    )
    return replace(node, cards=cards, assigned={})


def template_ledger_steps(
    ledger: Ledger, templates: Iterable[Node], uid: str
) -> Generator[None, None, Ledger]:
    """The ledger of the templates, for the pod with that UID. Yields after some templates.

    A pod whose bind is not confirmed stays where it is, as in ``ledger``. Pods that ``ledger`` knows on a
    node of that name count.
    """
    books: dict[str, Book] = {}
    for number, node in enumerate(templates, start=1):
        books[node.name] = _book(ledger.books.get(node.name), as_new(node))
        if number % _PER_STEP == 0:
            yield
    mine = ledger.reservation(uid)
    if mine is None:
        return Ledger(Map(books))
    return Ledger(Map({mine[0]: ledger.books[mine[0]], **books}), Map({uid: mine[0]}))


def _book(known: Book | None, node: Node) -> Book:
    return replace(known, node=node) if known else Book(node.name, node)


def without_placed(ledger: Ledger, uid: str) -> Ledger:
    """The ledger for the question where a pod could move that runs already: its own node counts it.

    A pod whose bind is not confirmed yet cannot move.
    """
    mine = ledger.reservation(uid)
    if mine is None or not mine[1].confirmed:
        return ledger
    return Ledger(ledger.books, ledger.home.delete(uid), ledger.nominated)
