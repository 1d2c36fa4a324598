"""Documents of the usage API as tables, which ``kubectl get`` asks for. Pure.

The type: ``Table`` of ``meta.k8s.io/v1``, see
https://kubernetes.io/docs/reference/using-api/api-concepts/#receiving-resources-as-tables.
"""

import time
from calendar import timegm
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from gpushare.model.usage_documents import ContainerGpu, GpuFit, GpuFitList, GpuPod

Object = dict[str, Any]

_AS_TABLE: Final = "as=table"
_UNKNOWN: Final = "<unknown>"
_NONE: Final = "<none>"
_MIB: Final = 2**20
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86400


def wants_table(accept: bytes) -> bool:
    """Whether the client prefers a table: its first type that is JSON is one."""
    first = next((each for each in accept.lower().split(b",") if b"json" in each), b"")
    return _AS_TABLE.encode() in first.replace(b" ", b"")


class _Column(NamedTuple):
    """A column; those with a priority are shown with ``-o wide`` only."""

    name: str
    kind: str
    meaning: str
    priority: int = 0


_POD_COLUMNS: Final = (
    _Column("Name", "string", "Name of the pod."),
    _Column("Status", "string", "State of the pod, as of kubectl get pods."),
    _Column("Units", "string", "Requested units of GPU memory."),
    _Column("GPUs", "string", "Indices of its GPUs; before it has some, how many it requests."),
    _Column("Used", "string", "GPU memory that its containers use, as the driver reports it."),
    _Column("Peak", "string", "Most GPU memory that the isolation library counted."),
    _Column("Limit", "string", "Enforced limit of GPU memory."),
    _Column("Refused", "string", "Allocations that the isolation library refused."),
    _Column("SM", "string", "Part of the time in which its kernels ran."),
    _Column("Age", "string", "Time since its creation."),
    _Column("Node", "string", "Node of the pod.", 1),
    _Column("Model", "string", "Model of its GPUs.", 1),
    _Column("Workload", "string", "Workload of the pod.", 1),
    _Column("Scheduler", "string", "Scheduler that places the pod.", 1),
)
_FIT_COLUMNS: Final = (
    _Column("Model", "string", "Model of the GPUs."),
    _Column("Memory", "string", "Memory of one GPU."),
    _Column("Nodes", "integer", "Nodes of the kind."),
    _Column("Open", "integer", "Nodes of the kind that take pods."),
    _Column("Largest-Free", "string", "Largest request on each GPU that fits now."),
    _Column("Fit", "integer", "How many pods of the asked size fit."),
    _Column("Pool", "string", "Labels of the pool.", 1),
    _Column("Taints", "string", "Taints that a pod has to tolerate.", 1),
)


def pod_table(rows: Sequence[Any]) -> Object:
    """The table with these rows, each a ``pod_row`` or its JSON."""
    return _table(_POD_COLUMNS, rows)


def pod_row(pod: GpuPod, now: float) -> Object:
    """The row of a pod; its age is that of ``now``, in seconds since 1970."""
    return _row(_pod_cells(pod, now), _metadata(pod))


def fit_table(fits: GpuFitList) -> Object:
    """The kinds of nodes."""
    names = (each.model or f"kind-{number}" for number, each in enumerate(fits.items))
    rows = [_row(_fit_cells(each), {"name": name}) for each, name in zip(fits.items, names, strict=True)]
    return _table(_FIT_COLUMNS, rows)


def _row(cells: list[Any], metadata: Object) -> Object:
    partial = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}
    return {"cells": cells, "object": partial}


def _table(columns: Sequence[_Column], rows: Sequence[Any]) -> Object:
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {},
        "columnDefinitions": [
            {
                "name": each.name,
                "type": each.kind,
                "format": "name" if each.name == "Name" else "",
                "description": each.meaning,
                "priority": each.priority,
            }
            for each in columns
        ],
        "rows": list(rows),
    }


def _metadata(pod: GpuPod) -> Object:
    meta = pod.metadata
    return {
        "name": meta.name,
        "namespace": meta.namespace,
        "creationTimestamp": meta.creation_timestamp,
        "labels": meta.labels,
    }


def _pod_cells(pod: GpuPod, now: float) -> list[Any]:
    gpus = [gpu for container in pod.containers for gpu in container.gpus]
    refusals = _sum(gpus, lambda gpu: gpu.refusals)
    busy = [gpu.utilization for gpu in gpus if gpu.utilization is not None]
    return [
        pod.metadata.name,
        pod.state or _UNKNOWN,
        _units(pod.requested_units, pod.unit),
        _indexes(pod),
        _memory(_sum(gpus, lambda gpu: gpu.used_bytes)),
        _memory(_sum(gpus, lambda gpu: gpu.peak_bytes)),
        _memory(_sum(gpus, lambda gpu: gpu.limit_bytes)),
        _UNKNOWN if refusals is None else str(refusals),
        f"{max(busy):.0%}" if busy else _UNKNOWN,
        _age(pod.metadata.creation_timestamp, now),
        pod.node or _NONE,
        ", ".join(sorted({gpu.model for gpu in gpus if gpu.model})) or _UNKNOWN,
        f"{pod.workload.kind.lower()}/{pod.workload.name}",
        pod.scheduler_name or _UNKNOWN,
    ]


def _fit_cells(fit: GpuFit) -> list[Any]:
    return [
        fit.model or _UNKNOWN,
        f"{fit.gpu_memory_mib}MiB" if fit.gpu_memory_mib else _units(fit.gpu_units, fit.unit),
        fit.nodes,
        fit.open_nodes,
        _units(fit.largest_free_units, fit.unit),
        fit.fitting_pods,
        ",".join(f"{key}={value}" for key, value in fit.labels.items()) or _NONE,
        ",".join(fit.taints) or _NONE,
    ]


def _sum(gpus: Sequence[ContainerGpu], number_of: Callable[[ContainerGpu], int | None]) -> int | None:
    """The sum of the known numbers; None if none is known."""
    known = [number for gpu in gpus if (number := number_of(gpu)) is not None]
    return sum(known) if known else None


def _units(units: int | None, unit: str | None) -> str:
    return _UNKNOWN if units is None else f"{units}{unit or ''}"


def _indexes(pod: GpuPod) -> str:
    if pod.gpu_indexes is not None:
        return ",".join(map(str, pod.gpu_indexes)) or _NONE
    return _NONE if pod.node is None else _UNKNOWN


def _memory(amount: int | None) -> str:
    return _UNKNOWN if amount is None else f"{round(amount / _MIB)}MiB"


def _age(created: str | None, now: float) -> str:
    """Such as ``45s``, ``12m``, ``5h`` or ``3d``."""
    try:
        begun = timegm(time.strptime(created or "", "%Y-%m-%dT%H:%M:%SZ"))
    except ValueError:
        return _UNKNOWN
    seconds = max(0, int(now - begun))
    for size, sign, least in ((_DAY_S, "d", 2), (_HOUR_S, "h", 2), (_MINUTE_S, "m", 2)):
        if seconds >= least * size:
            return f"{seconds // size}{sign}"
    return f"{seconds}s"
