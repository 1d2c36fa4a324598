"""Pods without a node that request shared GPUs: the answers of ``explain``, equal ones together. Pure.

Pods with the same request, the same reason and the same remedies are one group. Groups are ordered by their
oldest pod.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

import msgspec

from gpushare.board.state import BoardPod
from gpushare.model.demand import Demand
from gpushare.model.objects import Pod
from gpushare.overview.explain.answer import Answer, PodFacts, PodState, answer
from gpushare.overview.ledger_inputs import node_of
from gpushare.overview.objects import ClusterNode, ClusterPod
from gpushare.overview.surroundings import surroundings_of
from gpushare.scheduling.snapshot import books_of

EXPLAINED: Final = 20
"""Questions that are answered. Each takes up to a second on a thousand nodes.

The other pods have the scheduler's message only. Equal pods are one question, and no node decides about pods
that scheduling gates hold back, so those have a reason in any number.
"""
_REASONS: Final = 3
UNEXPLAINED: Final[dict[str, Any]] = {
    "state": None,
    "reason": None,
    "details": [],
    "nodes": [],
    "moreNodes": 0,
    "remedies": [],
}


def pending(
    nodes: Sequence[ClusterNode],
    pods: Sequence[BoardPod],
    unhealthy: Mapping[str, frozenset[int]],
    cgpu_pods: int,
) -> list[dict[str, Any]]:
    """One document for each group. ``unhealthy`` and ``cgpu_pods`` are as in ``explain``."""
    waiting = [
        (each.core, each.details)
        for each in pods
        if each.core and each.details and not (each.core.node or each.core.finished)
    ]
    if not waiting:
        return []
    waiting.sort(key=lambda each: (each[0].created, each[0].full_name))
    cores = [node_of(node, cgpu_pods) for node in nodes]
    books = books_of(cores, [each.core for each in pods if each.core], unhealthy)
    details = {node.name: node for node in nodes}
    around = surroundings_of((each.load for each in pods if each.load), (own for _, own in waiting))
    found = _explained([PodFacts(core, own, books, details, around=around) for core, own in waiting])
    return grouped(
        ({**_request(facts.pod), **why}, facts.details.scheduler_message, _named(facts.pod))
        for facts, why in found
    )


def grouped(waiting: Iterable[tuple[dict[str, Any], str, dict[str, Any]]]) -> list[dict[str, Any]]:
    """Pods with an equal request and answer together: of each pod that, the scheduler's message, its names.

    The message of a group is that of its first pod; those of the others are of other moments.
    """
    groups: dict[bytes, dict[str, Any]] = {}
    for same, message, pod in waiting:
        group: dict[str, Any] = {"scheduler": message, **same, "pods": []}
        groups.setdefault(msgspec.json.encode(same), group)["pods"].append(pod)
    return list(groups.values())


def _explained(waiting: Sequence[PodFacts]) -> Iterator[tuple[PodFacts, dict[str, Any]]]:
    """Each pod with its answer."""
    answers: dict[Hashable, dict[str, Any]] = {}
    tried: set[Hashable] = set()
    for facts in waiting:
        question = _question(facts.pod, facts.details)
        if not facts.pod.gated and len(tried) < EXPLAINED:
            tried.add(question)
        if facts.pod.gated or question in tried:
            if question not in answers:
                answers[question] = answered(answer(facts))
            yield facts, answers[question]
        else:
            yield facts, UNEXPLAINED | {"scheduler": facts.details.scheduler_message}


def _question(core: Pod, details: ClusterPod) -> Hashable:
    """Pods with the same value have the same answer."""
    spec = msgspec.json.encode((details.spec, details.status.conditions, details.metadata.labels))
    return spec, core.namespace, core.owner, core.placement, core.terminating


def answered(found: Answer) -> dict[str, Any]:
    """The answer of ``explain`` as the page shows it."""
    sharing = [node for node in found.nodes if node.cards] if found.state is PodState.NO_GPU else []
    return {
        "state": str(found.state),
        "reason": found.summary,
        "details": list(found.details),
        "nodes": [
            {"name": node.name, "reason": node.reason, "obstacles": list(node.obstacles)}
            for node in sharing[:_REASONS]
        ],
        "moreNodes": max(0, len(sharing) - _REASONS),
        "remedies": [asdict(each) for each in found.remedies],
    }


def _request(core: Pod) -> dict[str, Any]:
    asked = core.demand
    demand = asked if isinstance(asked, Demand) and not asked.has_suffix else None
    return {"units": demand.per_card.mem if demand else None, "gpus": demand.cards if demand else None}


def _named(core: Pod) -> dict[str, Any]:
    return {
        "namespace": core.namespace,
        "name": core.name,
        "uid": core.uid,
        "owner": core.owner or None,
        "created": core.created,
    }
