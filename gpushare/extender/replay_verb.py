"""What prioritize asks of the policy ``replay``."""

from collections.abc import Generator, Sequence
from typing import NamedTuple

from gpushare.adapters.kube.pod_loads import requests_of
from gpushare.adapters.kube.wire import any_pod_of
from gpushare.errors import InvalidRequest
from gpushare.extender import codec
from gpushare.model.demand import Malformed
from gpushare.scheduling.placement import POLICIES
from gpushare.scheduling.placement.replay.needs import Need
from gpushare.scheduling.placement.replay.rooms import need_of


class Question(NamedTuple):
    """A pod, and the nodes to compare."""

    need: Need
    names: Sequence[str]


def question_steps(body: bytes) -> Generator[None, None, Question | None]:
    """The question in a request of prioritize; None if another policy or nobody has to answer it.

    The annotation of a pod comes first, and nodes that only the request knows have no sequences.
    """
    try:
        args = yield from codec.decode_steps(body, codec.LoadedArgs)
        asked = yield from codec.asked_nodes_steps(args)
    except InvalidRequest:
        return None
    if args.pod is None or asked.objects is not None:
        return None
    pod = any_pod_of(args.pod)
    if isinstance(pod.demand, Malformed) or pod.placement in POLICIES:
        return None
    return Question(need_of(pod.demand, requests_of(args.pod.spec)), asked.names)
