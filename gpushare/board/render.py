"""All that the board shows, as one document. Pure.

Nodes are the items of ``kubectl inspect gpushare -o json``, sums those of its last line, pending pods the
answers of ``explain``; this module adds usage, states of GPUs, and since when something is unknown. Times are
seconds since 1970.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Final

from gpushare.board.health import Faults, statements
from gpushare.board.history import INTERVAL_S
from gpushare.board.idle import Idle, Sum, Workload, unknown_s
from gpushare.board.pending import pending
from gpushare.board.state import BoardMemory, BoardPod, BoardState, owners_of
from gpushare.board.usage import ContainerUsage, Live, NodeReport, total
from gpushare.model.cards import Card
from gpushare.overview.documents import document
from gpushare.overview.memory_units import common_unit, percent, unit_of, unit_sums
from gpushare.overview.node_document import nodes_document
from gpushare.overview.node_view import NodeView, PodView
from gpushare.overview.objects import ClusterNode

_GIB: Final = 2**30
_GIB_HOUR: Final = _GIB * 3600


def board_document(seen: BoardState, memory: BoardMemory) -> dict[str, Any]:
    """The document."""
    shared = [view for view in seen.views if view.shared]
    by_name = {node.name: node for node in seen.nodes}
    known = {(pod.namespace, pod.name): pod for pod in seen.pods}
    pods = [
        _pod(pod, view, seen.live, known[pod.namespace, pod.name]) for view in shared for pod in view.pods
    ]
    nodes = [
        _node(item, view, by_name[view.name], seen)
        for item, view in zip(nodes_document(shared)["items"], shared, strict=True)
    ]
    faults = _faults(seen, nodes, pods)
    return {
        **document("Board"),
        "cluster": seen.origin.cluster,
        "started": seen.origin.started,
        "lost": asdict(seen.lost) if seen.lost else None,
        "asked": seen.live.asked_at,
        "measured": sum(seen.live.now(view.name) is not None for view in shared),
        "health": [asdict(each) for each in statements(seen.control_plane, seen.nodes, faults, seen.at)],
        "unit": common_unit(shared) or None,
        "totals": _totals(shared),
        "used": _measured(shared, seen.live),
        "nodes": nodes,
        "pods": pods,
        "pending": pending(seen.nodes, seen.pods, seen.unhealthy, seen.cgpu_pods),
        "idle": _workloads(seen, memory.idle, pods),
        "history": {"intervalS": INTERVAL_S, "points": [asdict(each) for each in memory.history]},
    }


def _faults(seen: BoardState, nodes: list[dict[str, Any]], pods: list[dict[str, Any]]) -> Faults:
    asked = seen.live.asked_at is not None
    return Faults(
        over_committed=[
            f"{name} ({card['used']} of {card['total']} {unit or 'units'})"
            for name, card, unit in _in(nodes, "over-committed")
        ],
        unhealthy=[name for name, *_ in _in(nodes, "unhealthy")],
        unplaced=[f"{pod['namespace']}/{pod['name']}" for pod in pods if pod["unplaced"]],
        unready=[node["name"] for node in nodes if not node["ready"]],
        silent=[node["name"] for node in nodes if asked and not node["current"]],
        measured=sum(node["current"] for node in nodes) if asked else None,
        reported=seen.live.problems,
        unreadable=seen.problems,
        notes=seen.notes,
    )


def _in(nodes: list[dict[str, Any]], state: str) -> Iterator[tuple[str, dict[str, Any], str | None]]:
    """The GPUs in a state, with their names and units."""
    for node in nodes:
        for card in node["cards"]:
            if card["state"] == state:
                yield f"{node['name']} GPU {card['index']}", card, node["unit"]


def _totals(shared: list[NodeView]) -> list[dict[str, Any]]:
    """The last line of ``kubectl inspect gpushare``."""
    return [
        {
            "unit": each.unit or None,
            "used": each.used,
            "total": each.total,
            "percent": percent(each.used, each.total),
        }
        for each in unit_sums(shared, common_unit(shared), lambda node: node.used)
    ]


def _measured(shared: list[NodeView], live: Live) -> dict[str, Any]:
    """Used and total memory of the GPUs that the exporters reported in the last round."""
    gpus = [gpu for view in shared if (usage := live.now(view.name)) for gpu in usage.gpus.values()]
    return {
        "usedBytes": total([gpu.used_bytes for gpu in gpus]),
        "memoryBytes": total([gpu.memory_bytes for gpu in gpus]),
    }


def _node(item: dict[str, Any], view: NodeView, node: ClusterNode, seen: BoardState) -> dict[str, Any]:
    """The item of ``inspect``, with usage and states; its pods are in the list of all pods only."""
    now = seen.live.now(view.name)
    cordoned = node.cordoned_cards
    unhealthy = seen.unhealthy.get(view.name, frozenset())
    cards = [
        {**shown, **_gpu_usage(card, now), "state": gpu_state(view, card, cordoned, unhealthy)}
        for shown, card in zip(map(_without_pods, item["cards"]), view.cards, strict=True)
    ]
    return {
        **_without_pods(item),
        "cards": cards,
        "pending": _without_pods(item["pending"]),
        "percent": percent(view.used, view.total),
        "cordoned": node.spec.unschedulable,
        "reported": seen.live.last_at(view.name),
        "current": now is not None,
    }


def _without_pods(item: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in item.items() if key not in ("pods", "wholeCardPods")}


def _gpu_usage(card: Card, now: NodeReport | None) -> dict[str, Any]:
    """Usage of a GPU; ``limitBytes`` is the sum of its containers' limits, None if none has one."""
    index = str(card.index)
    gpu = now.gpus.get(index) if now else None
    here = [each for key, each in now.containers.items() if key[4] == index] if now else []
    limits = [each.limit_bytes for each in here if each.limit_bytes is not None]
    return {
        "usedBytes": gpu.used_bytes if gpu else None,
        "memoryBytes": gpu.memory_bytes if gpu else None,
        "utilization": gpu.utilization if gpu else None,
        "limitBytes": sum(limits) if limits else None,
    }


def gpu_state(view: NodeView, card: Card, cordoned: frozenset[int], unhealthy: frozenset[int]) -> str:
    """The first state that holds: over-committed, cordoned, unhealthy, whole, unknown, ok."""
    if view.used_on(card.index) > card.units:
        return "over-committed"
    if card.index in cordoned:
        return "cordoned"
    if card.faulty or card.index in unhealthy:
        return "unhealthy"
    if card.whole_gpu_pods:
        return "whole"
    return "ok" if view.described else "unknown"


def _pod(pod: PodView, view: NodeView, live: Live, known: BoardPod) -> dict[str, Any]:
    now = live.now(view.name)
    name = (pod.namespace, pod.name)
    own = [each for key, each in now.containers.items() if key[:2] == name] if now else []
    return {
        "namespace": pod.namespace,
        "name": pod.name,
        "uid": pod.uid,
        "owner": str(known.owner),
        "state": known.state,
        "runs": known.runs,
        "created": known.created,
        "node": view.name,
        "unit": unit_of(view) or None,
        "units": pod.units,
        "gpus": {str(card.index): units for card in view.cards if (units := pod.on_card(card.index))},
        "unplaced": pod.pending,
        **_containers(own),
    }


def _containers(own: list[ContainerUsage]) -> dict[str, Any]:
    """Sums over the containers of a pod and their GPUs; None is unknown.

    Without a limit ``limitBytes`` is None though ``reported`` is true.
    """
    refusals = [each.refusals for each in own if each.refusals is not None]
    return {
        "reported": bool(own),
        "usedBytes": total([each.used_bytes for each in own]),
        "allocatedBytes": total([each.allocated_bytes for each in own]),
        "idleBytes": total([each.idle_bytes for each in own]),
        "limitBytes": total([each.limit_bytes for each in own]),
        "peakBytes": total([each.peak_bytes for each in own]),
        "utilization": total([each.utilization for each in own]),
        "refusals": sum(refusals) if refusals else None,
    }


def _workloads(seen: BoardState, counted: Idle, pods: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Idle memory by workload: those that have pods now, and those that had idle memory before.

    Pods that do not run have no idle memory: they cannot use it.
    """
    now: defaultdict[Workload, list[dict[str, Any]]] = defaultdict(list)
    for pod in pods:
        if pod["owner"]:
            now[pod["namespace"], pod["owner"]].append(pod)
    gaps = unknown_s(counted, seen.at, owners_of(seen))
    found = [
        _workload(each, now[each], counted.sums.get(each), gaps.get(each, 0.0))
        for each in sorted({*now, *counted.sums})
    ]
    return sorted(found, key=lambda each: -(each["gibHours"] or 0))


def _workload(
    name: Workload, pods: list[dict[str, Any]], counted: Sum | None, gap_s: float
) -> dict[str, Any]:
    running = [pod for pod in pods if pod["runs"]]
    sums = {key: total([pod[key] for pod in running]) for key in ("allocatedBytes", "usedBytes", "idleBytes")}
    return {
        "namespace": name[0],
        "owner": name[1],
        "pods": len(pods),
        "running": len(running),
        "notRunning": sorted({pod["state"] for pod in pods if not pod["runs"]}),
        **sums,
        "gibHours": counted.idle / _GIB_HOUR if counted else None,
        "unknownHours": gap_s / 3600,
    }
