"""The answer about a pod: its state, why each node rejects it, and what would make it fit. Pure.

Whether a pod fits, and the reasons, come from ``gpushare.scheduling``, as in the extender.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from gpushare.contract import RESOURCE_CORE, RESOURCE_MEM
from gpushare.model.demand import Demand
from gpushare.model.objects import Pod
from gpushare.overview.explain.advice import Advice, advice, new_node, shared_node
from gpushare.overview.explain.causes import Excluded, clearing, sentences
from gpushare.overview.explain.nodes import NodeAnswer, node_answer
from gpushare.overview.explain.obstacles import NodeChecks
from gpushare.overview.explain.request import improper, invalid, not_ours
from gpushare.overview.explain.waits import gate_hint, group_hint, other_scheduler, waits
from gpushare.overview.objects import ClusterNode, ClusterPod
from gpushare.overview.requests import requests_of
from gpushare.overview.surroundings import Surroundings
from gpushare.scheduling.advice.remedies import ranked, remedies_on, shrunk, spread
from gpushare.scheduling.advice.rollout import self_wait_steps
from gpushare.scheduling.book import Book, reserved_shares
from gpushare.scheduling.fitting import PodRequest
from gpushare.scheduling.steps import result_of
from gpushare.scheduling.unknown_gpus import unknown_steps

_NODES_WITH_REMEDIES: Final = 3
"""Each takes milliseconds, and a reader compares few."""


class PodState(StrEnum):
    """What a pod waits for."""

    UNMANAGED = "not-managed"
    MALFORMED = "malformed"
    FINISHED = "finished"
    TERMINATING = "terminating"
    BOUND = "bound"
    GATED = "gated"
    NO_GPU = "waits-for-gpu"
    OTHER = "waits-for-other"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class PodFacts:
    """The pod and the cluster at one moment. ``notes`` are limits of what could be read.

    ``books`` is None if nodes or pods may not be listed; ``refusal`` is then the extender's last event.
    ``around`` is empty where it is not read.
    """

    pod: Pod
    details: ClusterPod
    books: Mapping[str, Book] | None = field(default_factory=dict)
    nodes: Mapping[str, ClusterNode] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    refusal: str = ""
    around: Surroundings = field(default_factory=Surroundings)


@dataclass(frozen=True, slots=True)
class Answer:
    """``summary`` is one sentence; ``nodes`` are best first.

    ``scheduler`` is the scheduler's last message; ``extender`` is that of the extender, if nodes are unknown.
    """

    pod: str
    state: PodState
    summary: str
    details: tuple[str, ...] = ()
    scheduler: str = ""
    extender: str = ""
    nodes: tuple[NodeAnswer, ...] = ()
    remedies: tuple[Advice, ...] = ()
    notes: tuple[str, ...] = ()


def answer(facts: PodFacts) -> Answer:
    """Never fails: an invalid request is an answer too."""
    found = _settled(facts) or _waiting(facts)
    message = "" if facts.pod.node else facts.details.scheduler_message
    found = replace(found, scheduler=message, notes=facts.notes)
    if facts.refusal and not facts.pod.node:
        found = replace(found, extender=facts.refusal)
    if found.state != PodState.UNKNOWN or facts.books is None or not isinstance(facts.pod.demand, Demand):
        return found
    return _pending(found, facts, facts.books, facts.pod.demand)


def _settled(facts: PodFacts) -> Answer | None:
    """The answer about a pod that has ended, has a node, or is not ours; None for another one."""
    pod, status, name = facts.pod, facts.details.status, facts.pod.full_name
    if status.phase in ("Succeeded", "Failed"):
        reported = ": ".join(filter(None, (status.reason, status.message)))
        summary = f"it has ended ({status.phase}) and uses no GPU"
        return Answer(name, PodState.FINISHED, summary, (reported,) if reported else ())
    if not pod.managed:
        summary, remedies = not_ours(facts.details)
        return Answer(name, PodState.UNMANAGED, summary, remedies=remedies)
    if pod.node:
        summary = f"it has node {pod.node}{_gpus(facts)}"
        hint = "" if facts.details.extended else other_scheduler(facts.details, facts.around)
        return Answer(name, PodState.BOUND, summary, (*_texts(hint), *facts.details.waiting))
    return None


def _gpus(facts: PodFacts) -> str:
    """The GPUs of a bound pod, as the ledger counts them."""
    book = (facts.books or {}).get(facts.pod.node or "")
    reservation = book.reservations.get(facts.pod.uid) if book else None
    if book is None or book.node is None or reservation is None:
        return ""
    shares = reserved_shares(reservation, book.node)
    if shares is None:
        return "; its GPU is not known yet, so it counts against every GPU there"
    return " with " + ", ".join(f"{share.mem} units of GPU {index}" for index, share in shares)


def _waiting(facts: PodFacts) -> Answer:
    """The answer about a pod without a node; ``UNKNOWN`` if the nodes decide."""
    pod, name = facts.pod, facts.pod.full_name
    if found := invalid(pod.demand, facts.details):
        summary, remedies = found
        return Answer(name, PodState.MALFORMED, summary, remedies=remedies)
    if pod.terminating:
        return Answer(name, PodState.TERMINATING, "it is being deleted, so no scheduler places it")
    if gates := [gate.name for gate in facts.details.spec.scheduling_gates or ()]:
        summary = f"no scheduler considers it before its gates are removed: {', '.join(gates)}"
        return Answer(name, PodState.GATED, summary, _texts(gate_hint(gates, pod.namespace)))
    asked = f"{_asked(pod.demand)}, and " if isinstance(pod.demand, Demand) else ""
    return Answer(name, PodState.UNKNOWN, f"{asked}you may not list the nodes that could have them")


def _texts(*texts: str) -> tuple[str, ...]:
    return tuple(filter(None, texts))


def _pending(found: Answer, facts: PodFacts, books: Mapping[str, Book], demand: Demand) -> Answer:
    pod = facts.pod
    request = PodRequest(pod.uid, demand, pod.priority, pod.placement)
    checks = NodeChecks(facts.details, facts.around, facts.nodes)
    excluded = {name: Excluded(node, tuple(checks.obstacles(node))) for name, node in facts.nodes.items()}
    answers = [_of_node(book, request, excluded.get(name)) for name, book in books.items()]
    answers.sort(key=lambda each: _rank(each, books[each.name]))
    found = replace(found, nodes=tuple(answers))
    if held := waits(facts.details, facts.around):
        first, *others = held
        texts = (*(each.text for each in others), *_texts(_fitting(demand, answers)))
        ends = tuple(remedy for each in held for remedy in each.remedies)
        return replace(found, state=PodState.OTHER, summary=first.text, details=texts, remedies=ends)
    if any(each.fits and not each.obstacles for each in answers):
        return _rejected_elsewhere(found, answers, facts, demand)
    fitting = [excluded[each.name] for each in answers if each.fits and each.name in excluded]
    needs = dict(requests_of(facts.details.spec))
    if fitting and not any(each.cards and not each.obstacles for each in answers):
        return _excluded(
            found, fitting, needs, (*_texts(_fitting(demand, answers)), *improper(facts.details))
        )
    remedies = _remedies(answers, books, request, facts, checks)
    return replace(
        found,
        state=PodState.NO_GPU,
        summary=f"{_asked(demand)}{_unmet(demand, books, excluded_fit=bool(fitting))}",
        details=(
            *_hints(request, pod, books),
            *_unknown_gpus(demand, books),
            *_elsewhere(fitting, needs),
            *improper(facts.details),
        ),
        remedies=(*remedies, *clearing(fitting, needs)),
    )


def _unknown_gpus(demand: Demand, books: Mapping[str, Book]) -> tuple[str, ...]:
    """What the annotations of the pod name and the cluster does not have."""
    return _texts(result_of(unknown_steps(books.values(), demand.gpus))) if demand.gpus else ()


def _unmet(demand: Demand, books: Mapping[str, Book], *, excluded_fit: bool) -> str:
    """What no node has: the end of the summary. Names the largest free block if it is too small."""
    if excluded_fit:
        return ", and no node that it may use has them"
    if demand.gpus:
        return ", and no node has them"
    name = min(books, key=lambda name: (-books[name].most_free, name), default="")
    largest = books[name].most_free if name else 0
    if not 0 < largest < demand.per_card.mem:
        return ", and no node has them"
    return f"; the largest free block is {largest} unit{'s' if largest > 1 else ''} (node {name})"


def _excluded(
    found: Answer, nodes: Sequence[Excluded], needs: Mapping[str, int], more: tuple[str, ...]
) -> Answer:
    """The answer for a pod that fits only on nodes that other causes exclude."""
    summary, *others = sentences(nodes, needs)
    remedies = tuple(clearing(nodes, needs))
    return replace(found, state=PodState.OTHER, summary=summary, details=(*others, *more), remedies=remedies)


def _of_node(book: Book, request: PodRequest, excluded: Excluded | None) -> NodeAnswer:
    """The answer for a node; without its API object, nothing but the GPUs is known."""
    if excluded is None:
        return node_answer(book, request, frozenset(), ())
    return node_answer(book, request, excluded.node.cordoned_cards, excluded.obstacles)


def _fitting(demand: Demand, answers: Sequence[NodeAnswer]) -> str:
    """On how many nodes and GPUs the units fit, in one line; empty if on none."""
    fitting = [each for each in answers if each.fits]
    gpus = sum(card.fits for each in fitting for card in each.cards)
    if not gpus:
        return ""
    nodes = f"{len(fitting)} node{'s' if len(fitting) > 1 else ''}"
    units = f"{demand.per_card.mem} units of {RESOURCE_MEM}"
    return f"GPUs are not the cause: {units} fit on {nodes} ({gpus} GPU{'s' if gpus > 1 else ''})"


def _elsewhere(fitting: Sequence[Excluded], needs: Mapping[str, int]) -> Iterator[str]:
    if fitting:
        yield f"it would fit elsewhere, but {sentences(fitting, needs)[0]}"


def _hints(request: PodRequest, pod: Pod, books: Mapping[str, Book]) -> Iterator[str]:
    """What is peculiar about the workload of the pod."""
    if found := result_of(self_wait_steps(books.values(), pod, request)):
        yield found.text


def _rank(each: NodeAnswer, book: Book) -> tuple[bool, bool, bool, int, str]:
    """Best first: nodes that fit, without obstacles, with GPUs, with the most free units on one GPU."""
    return not each.fits, bool(each.obstacles), not each.cards, -book.most_free, each.name


def _rejected_elsewhere(
    found: Answer, answers: Sequence[NodeAnswer], facts: PodFacts, demand: Demand
) -> Answer:
    """The answer for a pod that fits on the first of the nodes."""
    node, pod = answers[0], facts.details
    summary = f"node {node.name} has free units for it (it {node.reason}), but it has no node yet"
    detail = (
        "the scheduler has a reason that explain does not check, its message is older than this answer, or "
        "it does not ask the extender; run kubectl gpushare doctor"
    )
    if hint := group_hint(facts.around.gang):
        detail = hint
    if not pod.seen:
        detail = (
            f"no scheduler has reported on it; check that {pod.scheduler} runs with kubectl gpushare doctor"
        )
    hint = other_scheduler(pod, facts.around)
    details = _texts(hint, detail, _fitting(demand, answers), *improper(pod))
    return replace(found, state=PodState.OTHER, summary=summary, details=details)


def _asked(demand: Demand) -> str:
    core = f" and {demand.per_card.core} % of {RESOURCE_CORE}" if demand.core else ""
    cards = f" on each of {demand.cards} GPUs" if demand.cards > 1 else " on one GPU"
    choice = f", by {demand.gpus}" if demand.gpus else ""
    return f"it requests {demand.per_card.mem} units of {RESOURCE_MEM}{core}{cards}{choice}"


def _remedies(
    answers: Sequence[NodeAnswer],
    books: Mapping[str, Book],
    request: PodRequest,
    facts: PodFacts,
    checks: NodeChecks,
) -> list[Advice]:
    """Changes of the best nodes and of the request, by sense, then other nodes."""
    open_books = [books[each.name] for each in answers if each.cards and not each.obstacles]
    changes = [each for each in (shrunk(open_books, request), spread(open_books, request)) if each]
    for book in open_books[:_NODES_WITH_REMEDIES]:
        changes += remedies_on(book, request)
    found = [
        advice(each, books[each.node], request, facts.nodes.get(each.node) or ClusterNode())
        for each in ranked(changes, request)
    ]
    shareable = shared_node(checks, facts.nodes, books, request.demand)
    return [*found, *([shareable] if shareable else []), new_node(request.demand)]
