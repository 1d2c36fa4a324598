"""The scheduler's verbs as functions: request body and ledger in, answer body out. No I/O.

Bad input becomes an answer with ``Error`` filled, never an exception: schedulers show that text,
and they discard the body of anything but a 200.
"""

from collections.abc import Mapping
from typing import NamedTuple

from gpushare.adapters.kube.wire import WirePod, any_pod_of
from gpushare.errors import InvalidRequest
from gpushare.extender import codec
from gpushare.extender.decision import BindRequest
from gpushare.model.demand import Malformed
from gpushare.model.objects import Pod
from gpushare.scheduling.filtering import FilterOutcome, filter_nodes, scores, shortlisted
from gpushare.scheduling.fitting import PodRequest
from gpushare.scheduling.ledger import Ledger
from gpushare.scheduling.preemption import preempt


class VerbResult(NamedTuple):
    """A verb's answer, and the error in it for logs and metrics.

    ``stuck`` is the UID of a pod for which no node has room now, though one could have.
    """

    answer: bytes
    error: str = ""
    stuck: str = ""


def error_answer(verb: str, text: str) -> bytes:
    """The answer of a verb that could not be carried out. Only filter's has room for the reason."""
    match verb:
        case "filter":
            return codec.filter_error(text)
        case "prioritize":
            return codec.scores_answer({})
        case _:
            return codec.preempt_answer(codec.PreemptArgs(), {})


def filter_verb(body: bytes, ledger: Ledger, *, most: int = 0) -> VerbResult:
    """Which nodes have room, ``most`` of them or all for 0, and why the others have not."""
    try:
        args = codec.decode(body, codec.FilterArgs)
        pod = _pod(args.pod)
        verdict = _verdict(args, pod, ledger, most)
        stuck = "" if verdict.passed or not verdict.failed else pod.uid
        return VerbResult(codec.filter_answer(args, verdict), stuck=stuck)
    except InvalidRequest as error:
        return VerbResult(error_answer("filter", str(error)), str(error))


def _verdict(args: codec.FilterArgs, pod: Pod, ledger: Ledger, most: int) -> FilterOutcome:
    """A pod whose demand is malformed fits nowhere, and the reason says why."""
    names = codec.asked_nodes(args)
    if isinstance(pod.demand, Malformed):
        return FilterOutcome(hopeless=dict.fromkeys(names, pod.demand.problem))
    pod_request = pod_request_of(pod)
    return shortlisted(ledger, pod_request, filter_nodes(ledger, pod_request, names), most)


def prioritize_verb(body: bytes, ledger: Ledger) -> VerbResult:
    """Scores 0–10; a request that cannot be read scores nothing, as this verb has no error field."""
    try:
        args = codec.decode(body, codec.FilterArgs)
        pod_request = pod_request_of(_pod(args.pod))
        return VerbResult(codec.scores_answer(scores(ledger, pod_request, codec.asked_nodes(args))))
    except InvalidRequest as error:
        return VerbResult(error_answer("prioritize", str(error)), str(error))


def preempt_verb(body: bytes, ledger: Ledger) -> VerbResult:
    """Victims per node; a request that cannot be read evicts nobody."""
    try:
        args = codec.decode(body, codec.PreemptArgs)
        chosen = preempt(ledger, pod_request_of(_pod(args.pod)), codec.proposed_victims(args))
        return VerbResult(codec.preempt_answer(args, chosen))
    except InvalidRequest as error:
        return VerbResult(error_answer("preempt", str(error)), str(error))


def bind_request(body: bytes) -> BindRequest:
    """Raises InvalidRequest that names what is missing."""
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
    return BindRequest(args.namespace, args.name, args.uid, args.node)


def _pod(wire: WirePod | None) -> Pod:
    if wire is None:
        raise InvalidRequest("arg or pod is nil")
    return any_pod_of(wire)


def pod_request_of(pod: Pod) -> PodRequest:
    """The pod as one that looks for a place. Raises InvalidRequest where its demand is malformed."""
    if isinstance(pod.demand, Malformed):
        raise InvalidRequest(f"pod {pod.full_name}: {pod.demand.problem}")
    return PodRequest(pod.uid, pod.demand, pod.priority, pod.placement)
