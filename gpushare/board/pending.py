"""Pods without a node that request shared GPUs: the answers of ``explain``, oldest first. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from gpushare.board.state import BoardPod
from gpushare.model.demand import Demand
from gpushare.model.objects import Pod
from gpushare.overview.explain.answer import PodFacts, PodState, answer
from gpushare.overview.ledger_inputs import node_of
from gpushare.overview.objects import ClusterNode, ClusterPod
from gpushare.overview.surroundings import surroundings_of
from gpushare.scheduling.snapshot import books_of

EXPLAINED: Final = 20
"""Each takes up to a second on a thousand nodes; the others have the scheduler's message only.

No node decides about pods that scheduling gates hold back, so those have a reason in any number.
"""
_REASONS: Final = 3


def pending(
    nodes: Sequence[ClusterNode],
    pods: Sequence[BoardPod],
    unhealthy: Mapping[str, frozenset[int]],
    cgpu_pods: int,
) -> list[dict[str, Any]]:
    """One document for each pod. ``unhealthy`` and ``cgpu_pods`` are as in ``explain``."""
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
    tried = [core.uid for core, _ in waiting if not core.gated]
    unexplained = frozenset(tried[EXPLAINED:])
    around = surroundings_of((each.load for each in pods if each.load), (own for _, own in waiting))
    return [
        _listed(core, own)
        if core.uid in unexplained
        else _explained(core, PodFacts(core, own, books, details, around=around))
        for core, own in waiting
    ]


def _explained(core: Pod, facts: PodFacts) -> dict[str, Any]:
    found = answer(facts)
    sharing = [node for node in found.nodes if node.cards] if found.state is PodState.NO_GPU else []
    return {
        **_listed(core, facts.details),
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


def _listed(core: Pod, details: ClusterPod) -> dict[str, Any]:
    asked = core.demand
    demand = asked if isinstance(asked, Demand) and not asked.has_suffix else None
    return {
        "namespace": core.namespace,
        "name": core.name,
        "uid": core.uid,
        "created": core.created,
        "units": demand.per_card.mem if demand else None,
        "gpus": demand.cards if demand else None,
        "state": None,
        "reason": None,
        "details": [],
        "nodes": [],
        "moreNodes": 0,
        "remedies": [],
        "scheduler": details.scheduler_message,
    }
