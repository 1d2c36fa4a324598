"""The scheduler's verbs as generators: request body and ledger in, answer body out. No I/O.

They yield between parts of the work, which takes long in a large cluster.

Invalid input becomes an answer with ``Error`` set, never an exception: the scheduler shows that text, and
discards the body of any status but 200.
"""

from collections.abc import Generator, Mapping, Sequence
from typing import Final, NamedTuple

from gpushare.adapters.kube.wire import WirePod, any_pod_of
from gpushare.contract import REASON_ANNOTATIONS, REASON_REJECTED
from gpushare.errors import InvalidRequest
from gpushare.extender import codec
from gpushare.extender.backoff import Wait, WaitOf, no_wait
from gpushare.extender.decision import BindRequest
from gpushare.extender.group_plans import GroupPlans
from gpushare.extender.node_objects import filter_objects_steps, score_objects_steps
from gpushare.model.demand import Malformed
from gpushare.model.names import is_object_name
from gpushare.model.objects import Pod
from gpushare.scheduling import filtering
from gpushare.scheduling.book import Book
from gpushare.scheduling.filtering import FilterOutcome
from gpushare.scheduling.fitting import PodRequest
from gpushare.scheduling.ledger import Ledger
from gpushare.scheduling.preemption import BudgetsOf, no_budgets, victims_by_node_steps
from gpushare.scheduling.unknown_gpus import unknown_steps

_SHOWN: Final = 100
"""Characters of a wrong name in an error."""


class VerbResult(NamedTuple):
    """A verb's answer, and its error for logs and metrics.

    ``may_fit_soon`` is a pod that fits on no node now but could fit later. ``passed`` are the pod and the
    nodes that filter has returned. ``preemptor`` is the UID of a pod for which preempt has returned victims.
    ``short`` are the nodes where ``may_fit_soon`` lacks only free units: kube-scheduler asks for nodes that
    meet all of its own conditions.
    """

    answer: bytes
    error: str = ""
    may_fit_soon: Pod | None = None
    passed: tuple[Pod, list[str]] | None = None
    preemptor: str | None = None
    short: tuple[str, ...] = ()


def error_answer(verb: str, text: str) -> bytes:
    """The answer of a verb that failed. Only filter has a field for the reason."""
    match verb:
        case "filter":
            return codec.filter_error(text)
        case "prioritize":
            return codec.scores_answer({})
        case _:
            return codec.preempt_answer(codec.PreemptArgs(), {})


Steps = Generator[None, None, VerbResult]


def filter_steps(
    body: bytes,
    ledger: Ledger,
    *,
    most: int = 0,
    wait_of: WaitOf = no_wait,
    plans: GroupPlans | None = None,
) -> Steps:
    """The nodes that fit, at most ``most`` (0: all), and the reasons of the others.

    For a member of a pod group only the node that ``plans`` then has for it.
    """
    try:
        # In steps, as all that depends on the size of a request: a tenant's pod may have 10,000 levels.
        args = yield from codec.decode_steps(body, codec.FilterArgs)
        pod = _pod(args.pod)
        asked = yield from codec.asked_nodes_steps(args)
        # Here, because after a bind it is too late: the pod would run, and its status could not be written.
        if not codec.has_room(body):
            full = FilterOutcome(unresolvable=dict.fromkeys(asked.names, REASON_ANNOTATIONS))
            return VerbResult(codec.filter_answer(asked, full))
        outcome = yield from _filter(asked, pod, ledger, most, wait_of(pod), plans)
        # Who sends objects simulates, and does not wait for events.
        waiting = pod if asked.objects is None and _may_fit_soon(outcome, ledger) else None
        passed = (pod, outcome.passed) if outcome.passed else None
        short = tuple(outcome.failed) if waiting else ()
        return VerbResult(codec.filter_answer(asked, outcome), "", waiting, passed, short=short)
    except InvalidRequest as error:
        return VerbResult(error_answer("filter", str(error)), str(error))


def _may_fit_soon(outcome: FilterOutcome, ledger: Ledger) -> bool:
    """Whether an event may let the pod fit: units of a node are free, or a closed node takes pods again."""
    return not outcome.passed and (
        bool(outcome.failed) or any(_is_closed(ledger.books.get(name)) for name in outcome.unresolvable)
    )


def _is_closed(book: Book | None) -> bool:
    return book is not None and book.node is not None and bool(book.node.closed)


def _filter(
    asked: codec.AskedNodes,
    pod: Pod,
    ledger: Ledger,
    most: int,
    wait: Wait | None,
    plans: GroupPlans | None,
) -> Generator[None, None, FilterOutcome]:
    """A pod with a malformed demand fits on no node."""
    names = asked.names
    if isinstance(pod.demand, Malformed):
        return FilterOutcome(unresolvable=dict.fromkeys(names, pod.demand.problem))
    left = [name for name in names if not wait.excludes(name)] if wait else names
    if asked.objects is not None:
        outcome = yield from filter_objects_steps(asked.objects, ledger, pod_request_of(pod), left, most)
    elif plans and pod.group and not pod.demand.empty and ledger.reservation(pod.uid) is None:
        outcome = yield from plans.filter_steps(pod, pod.demand, left, ledger)
    else:
        outcome = yield from filtering.filter_steps(ledger, pod_request_of(pod), left, most)
    if asked.objects is None and not outcome.passed and pod.demand.gpus:
        unknown = yield from unknown_steps(ledger.books.values(), pod.demand.gpus)
        outcome.unresolvable.update(dict.fromkeys(outcome.unresolvable, unknown) if unknown else {})
    if wait:
        excluded = filter(wait.excludes, names)
        # Unresolvable, so that kube-scheduler evicts no pod there.
        outcome.unresolvable.update(dict.fromkeys(excluded, REASON_REJECTED))
    return outcome


def prioritize_steps(body: bytes, ledger: Ledger) -> Steps:
    """Scores 0–10; empty for an invalid request, because this verb has no error field."""
    try:
        args = yield from codec.decode_steps(body, codec.FilterArgs)
        pod = _pod(args.pod)
        asked = yield from codec.asked_nodes_steps(args)
        if asked.objects is None:
            return VerbResult((yield from scores_steps(pod, asked.names, ledger)))
        scores = yield from score_objects_steps(asked.objects, ledger, pod_request_of(pod))
        return VerbResult(codec.scores_answer(scores))
    except InvalidRequest as error:
        return VerbResult(error_answer("prioritize", str(error)), str(error))


def scores_steps(pod: Pod, names: Sequence[str], ledger: Ledger) -> Generator[None, None, bytes]:
    """The answer of prioritize for these nodes. Raises InvalidRequest if the demand is malformed."""
    scores = yield from filtering.score_steps(ledger, pod_request_of(pod), names)
    return codec.scores_answer(scores)


def preempt_steps(body: bytes, ledger: Ledger, budgets_of: BudgetsOf = no_budgets) -> Steps:
    """Victims per node; none for an invalid request."""
    try:
        args = yield from codec.decode_steps(body, codec.PreemptArgs)
        pod = _pod(args.pod)
        chosen = yield from victims_by_node_steps(
            ledger, pod_request_of(pod), codec.proposed_victims(args), budgets_of
        )
        return VerbResult(codec.preempt_answer(args, chosen), preemptor=pod.uid if chosen else None)
    except InvalidRequest as error:
        return VerbResult(error_answer("preempt", str(error)), str(error))


def bind_request(body: bytes) -> BindRequest:
    """The request in a body. Raises InvalidRequest, which names the missing or invalid fields."""
    args = codec.decode(body, codec.BindArgs)
    given: Mapping[str, str] = {
        "PodName": args.name,
        "PodNamespace": args.namespace,
        "PodUID": args.uid,
        "Node": args.node,
    }
    missing = [key for key, value in given.items() if not value]
    if missing:
        raise InvalidRequest(f"bind request without {', '.join(missing)}")
    for key in ("PodName", "PodNamespace"):
        if not is_object_name(given[key]):  # another path would be read with the rights of the extender
            raise InvalidRequest(f"bind request with {key} {given[key][:_SHOWN]!r}, which is not a name")
    return BindRequest(args.namespace, args.name, args.uid, args.node)


def _pod(wire: WirePod | None) -> Pod:
    if wire is None:
        raise InvalidRequest("arg or pod is nil")
    return any_pod_of(wire)


def pod_request_of(pod: Pod) -> PodRequest:
    """The pod request of a pod. Raises InvalidRequest if its demand is malformed."""
    if isinstance(pod.demand, Malformed):
        raise InvalidRequest(f"pod {pod.full_name}: {pod.demand.problem}")
    return PodRequest(pod.uid, pod.demand, pod.priority, pod.placement)
