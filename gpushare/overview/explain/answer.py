"""The answer about a pod: its state, why each node rejects it, and what would make it fit. Pure.

Whether a pod fits, and the reasons, come from ``gpushare.scheduling``, as in the extender.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from gpushare.contract import RESOURCE_CORE, RESOURCE_MEM
from gpushare.model.demand import SUFFIX, Demand, Malformed
from gpushare.model.objects import Pod
from gpushare.overview.explain.advice import Advice, advice, new_node, shared_node
from gpushare.overview.explain.nodes import NodeAnswer, node_answer
from gpushare.overview.objects import ClusterNode, ClusterPod
from gpushare.scheduling.advice.remedies import remedies_on, shrunk, spread
from gpushare.scheduling.advice.rollout import self_wait_steps
from gpushare.scheduling.book import Book, reserved_shares
from gpushare.scheduling.fitting import PodRequest
from gpushare.scheduling.steps import result_of

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
    """

    pod: Pod
    details: ClusterPod
    books: Mapping[str, Book] | None = field(default_factory=dict)
    nodes: Mapping[str, ClusterNode] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    refusal: str = ""


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
    state, summary, *details = _settled(facts) or _waiting(facts)
    message = "" if facts.pod.node else facts.details.scheduler_message
    found = Answer(facts.pod.full_name, PodState(state), summary, tuple(details), message, notes=facts.notes)
    if facts.refusal and not facts.pod.node:
        found = replace(found, extender=facts.refusal)
    if state != PodState.UNKNOWN or facts.books is None or not isinstance(facts.pod.demand, Demand):
        return found
    return _pending(found, facts, facts.books, facts.pod.demand)


def _settled(facts: PodFacts) -> tuple[str, ...] | None:
    """State, summary and details of a pod that has ended or has a node; None for another one."""
    pod, status = facts.pod, facts.details.status
    if status.phase in ("Succeeded", "Failed"):
        reported = ": ".join(filter(None, (status.reason, status.message)))
        return (
            PodState.FINISHED,
            f"it has ended ({status.phase}) and uses no GPU",
            *filter(None, (reported,)),
        )
    if not pod.managed:
        return PodState.UNMANAGED, f"it requests no {RESOURCE_MEM}, so gpushare does not place it"
    if pod.node:
        return (PodState.BOUND, f"it has node {pod.node}{_gpus(facts)}", *facts.details.waiting)
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


def _waiting(facts: PodFacts) -> tuple[str, ...]:
    """State and summary of a pod without a node; ``UNKNOWN`` if the nodes decide."""
    pod = facts.pod
    if isinstance(pod.demand, Malformed):
        return PodState.MALFORMED, f"its request is invalid: {pod.demand.problem}"
    if pod.terminating:
        return PodState.TERMINATING, "it is being deleted, so no scheduler places it"
    if gates := [gate.name for gate in facts.details.spec.scheduling_gates or ()]:
        return PodState.GATED, f"no scheduler considers it before its gates are removed: {', '.join(gates)}"
    hints = (SUFFIX,) if facts.books is None and pod.demand.has_suffix else ()
    return PodState.UNKNOWN, f"{_asked(pod.demand)}, and you may not read whether a node has them", *hints


def _pending(found: Answer, facts: PodFacts, books: Mapping[str, Book], demand: Demand) -> Answer:
    pod = facts.pod
    request = PodRequest(pod.uid, demand, pod.priority, pod.placement)
    answers = [
        node_answer(book, request, facts.details, facts.nodes.get(name)) for name, book in books.items()
    ]
    answers.sort(key=lambda each: _rank(each, books[each.name]))
    fitting = [each for each in answers if each.fits]
    usable = [each for each in fitting if not each.obstacles]
    if usable:
        return _rejected_elsewhere(replace(found, nodes=tuple(answers)), usable[0], facts.details)
    if fitting:
        names = ", ".join(each.name for each in fitting)
        summary = f"{_asked(demand)}, and only nodes that exclude it for other reasons have them: {names}"
        return replace(found, state=PodState.OTHER, summary=summary, nodes=tuple(answers))
    return replace(
        found,
        state=PodState.NO_GPU,
        summary=f"{_asked(demand)}, and no node has them",
        details=(*found.details, *_hints(demand, request, pod, books)),
        nodes=tuple(answers),
        remedies=tuple(_remedies(answers, books, request, facts)),
    )


def _hints(demand: Demand, request: PodRequest, pod: Pod, books: Mapping[str, Book]) -> Iterator[str]:
    """What is peculiar about the request, or about the workload of the pod."""
    if demand.has_suffix:
        yield SUFFIX
    if found := result_of(self_wait_steps(books.values(), pod, request)):
        yield found.text


def _rank(each: NodeAnswer, book: Book) -> tuple[bool, bool, bool, int, str]:
    """Best first: nodes that fit, without obstacles, with GPUs, with the most free units on one GPU."""
    return not each.fits, bool(each.obstacles), not each.cards, -book.most_free, each.name


def _rejected_elsewhere(found: Answer, node: NodeAnswer, pod: ClusterPod) -> Answer:
    """The answer for a pod that fits on the node."""
    summary = f"node {node.name} has free units for it (it {node.reason}), but it has no node yet"
    detail = "the scheduler rejects it for another reason, or its message is older than this answer"
    if not pod.seen:
        scheduler = pod.spec.scheduler_name or "default-scheduler"
        detail = f"no scheduler has reported on it; check that {scheduler} runs: kubectl gpushare doctor"
    return replace(found, state=PodState.OTHER, summary=summary, details=(detail,))


def _asked(demand: Demand) -> str:
    core = f" and {demand.per_card.core} % of {RESOURCE_CORE}" if demand.core else ""
    cards = f" on each of {demand.cards} GPUs" if demand.cards > 1 else " on one GPU"
    return f"it requests {demand.per_card.mem} units of {RESOURCE_MEM}{core}{cards}"


def _remedies(
    answers: Sequence[NodeAnswer],
    books: Mapping[str, Book],
    request: PodRequest,
    facts: PodFacts,
) -> list[Advice]:
    """Changes of the request first, then those of the best nodes, then other nodes."""
    open_books = [books[each.name] for each in answers if each.cards and not each.obstacles]
    changes = [each for each in (shrunk(open_books, request), spread(open_books, request)) if each]
    for book in open_books[:_NODES_WITH_REMEDIES]:
        changes += remedies_on(book, request)
    found = [
        advice(each, books[each.node], request, facts.nodes.get(each.node) or ClusterNode())
        for each in changes
    ]
    if request.demand.has_suffix:
        return found
    shareable = shared_node(facts.details, facts.nodes, books, request.demand)
    return [*found, *([shareable] if shareable else []), new_node(request.demand)]
