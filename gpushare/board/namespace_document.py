"""All that the board shows of one namespace, as one document: what the usage API says. Pure.

Pods and pending pods are as in the document of the whole cluster (``render``), so that the page has one
table for both. Nodes and other namespaces are not in it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from msgspec import to_builtins

from gpushare.board.health import DOCTOR, Level, Statement, sentence
from gpushare.board.pending import UNEXPLAINED, answered, grouped
from gpushare.board.state import Lost, Origin
from gpushare.board.usage import total
from gpushare.model.usage_documents import ContainerGpu, GpuFitList, GpuPod, GpuPodList
from gpushare.overview.documents import document
from gpushare.overview.explain.answer import Answer
from gpushare.overview.pod_state import runs

Question = tuple[str, ...]
"""Pods with the same value have the same explanation."""


@dataclass(frozen=True, slots=True)
class NamespaceState:
    """One namespace at one moment. ``answers`` are those of ``explain``, by question."""

    origin: Origin
    namespace: str
    at: float
    pods: GpuPodList
    fits: GpuFitList
    answers: Mapping[Question, Answer] = field(default_factory=dict)
    lost: Lost | None = None


def namespace_document(seen: NamespaceState) -> dict[str, Any]:
    """The document."""
    waiting = pending_of(seen.pods.items)
    pods = [_pod(pod) for pod in seen.pods.items if pod.node]
    notes = dict.fromkeys((*seen.pods.notes, *seen.fits.notes))
    return {
        **document("NamespaceBoard"),
        "cluster": seen.origin.cluster,
        "namespace": seen.namespace,
        "started": seen.origin.started,
        "lost": asdict(seen.lost) if seen.lost else None,
        "asked": seen.at,
        "health": [asdict(Statement(Level.UNKNOWN, sentence(text), DOCTOR)) for text in notes],
        "unit": _unit(seen),
        "pods": pods,
        "pending": grouped(
            ({**_request(pod), **_why(pod, seen.answers)}, "", _named(pod)) for pod in waiting
        ),
        "fits": to_builtins(seen.fits),
    }


def pending_of(pods: Iterable[GpuPod]) -> list[GpuPod]:
    """The pods that wait for a node, oldest first."""
    waiting = [pod for pod in pods if not pod.node and pod.phase in (None, "Pending")]
    return sorted(waiting, key=lambda pod: (pod.metadata.creation_timestamp or "", pod.metadata.name))


def question_of(pod: GpuPod) -> Question:
    """Its workload and request; a pod without a controller is its own workload."""
    size = (str(pod.requested_units), str(pod.requested_gpus), pod.problem or "")
    return (pod.workload.kind, pod.workload.name, pod.state or "", pod.scheduler_name or "", *size)


def _unit(seen: NamespaceState) -> str | None:
    """The unit that most nodes have; None if it is not known."""
    units = Counter({each.unit: 0 for each in seen.fits.items if each.unit})
    for each in seen.fits.items:
        if each.unit:
            units[each.unit] += each.nodes
    return units.most_common(1)[0][0] if units else None


def _why(pod: GpuPod, answers: Mapping[Question, Answer]) -> dict[str, Any]:
    found = answers.get(question_of(pod))
    return answered(found) | {"scheduler": found.scheduler} if found else UNEXPLAINED


def _request(pod: GpuPod) -> dict[str, Any]:
    gpus = pod.requested_gpus or 1
    units = pod.requested_units
    return {"units": None if units is None else units // gpus, "gpus": pod.requested_gpus}


def _named(pod: GpuPod) -> dict[str, Any]:
    meta = pod.metadata
    return {
        "namespace": meta.namespace,
        "name": meta.name,
        "uid": meta.name,
        "owner": _owner(pod),
        "created": meta.creation_timestamp or "",
    }


def _owner(pod: GpuPod) -> str:
    return f"{pod.workload.kind.lower()}/{pod.workload.name}"


def _pod(pod: GpuPod) -> dict[str, Any]:
    gpus = [gpu for container in pod.containers for gpu in container.gpus]
    units = pod.requested_units or 0
    indexes = pod.gpu_indexes or ()
    return {
        **_named(pod),
        "state": pod.state or pod.phase or "Unknown",
        "runs": runs(pod.phase, pod.state or pod.phase),
        "node": pod.node,
        "unit": pod.unit,
        "units": units,
        "gpus": {str(index): units // len(indexes) for index in indexes},
        "unplaced": 0 if indexes else units,
        "reported": pod.measured and bool(gpus),
        **_sums(gpus),
    }


def _sums(gpus: Sequence[ContainerGpu]) -> dict[str, Any]:
    """Sums over containers and their GPUs; None is unknown."""
    refusals = [each.refusals for each in gpus if each.refusals is not None]
    return {
        "usedBytes": total([each.used_bytes for each in gpus]),
        "allocatedBytes": total([each.allocated_bytes for each in gpus]),
        "limitBytes": total([each.limit_bytes for each in gpus]),
        "peakBytes": total([each.peak_bytes for each in gpus]),
        "utilization": total([each.utilization for each in gpus]),
        "refusals": sum(refusals) if refusals else None,
    }
