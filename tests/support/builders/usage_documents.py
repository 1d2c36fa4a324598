"""Documents of the usage API as a user of one namespace gets them."""

from typing import Any

from msgspec import structs

from gpushare.model.usage_documents import (
    ContainerGpu,
    GpuContainer,
    GpuFit,
    GpuFitList,
    GpuPod,
    UsageMeta,
    UsageOwner,
)

GIB = 2**30


def gpu_pod(name: str, units: int, owner: tuple[str, str] | None = None, **more: Any) -> GpuPod:
    """A pending pod of namespace ``team-a``."""
    created = more.pop("created", "2026-11-25T01:00:00Z")
    kind, workload = owner or ("Pod", name)
    return GpuPod(
        metadata=UsageMeta(name=name, namespace="team-a", creation_timestamp=created),
        workload=UsageOwner(kind, workload),
        requested_units=units,
        requested_gpus=more.pop("gpus", 1),
        **{"phase": "Pending", "state": "Pending", "scheduler_name": "default-scheduler", **more},
    )


def running_pod(name: str, units: int, used_gib: float | None, **more: Any) -> GpuPod:
    """A running pod on GPU 0 of node ``gpu-a10-1`` with a limit."""
    gpu = ContainerGpu(
        index=0,
        model="NVIDIA A10",
        allocated_bytes=units * GIB,
        limit_bytes=more.pop("limit_bytes", units * GIB),
        used_bytes=None if used_gib is None else int(used_gib * GIB),
        peak_bytes=None if used_gib is None else int((used_gib + 0.5) * GIB),
        refusals=more.pop("refusals", 0),
        utilization=more.pop("utilization", 0.4),
    )
    container = GpuContainer(name="main", requested_units=units, gpus=(gpu,))
    bound = {"node": "gpu-a10-1", "unit": "GiB", "gpu_indexes": (0,), "measured": used_gib is not None}
    placed = {"phase": "Running", "state": "Running", **bound, "containers": (container,)}
    return gpu_pod(name, units, **{**placed, **more})


def fits(*kinds: GpuFit) -> GpuFitList:
    """What fits on these kinds of nodes."""
    largest = max((kind.largest_free_units for kind in kinds), default=0)
    return GpuFitList(units=1, gpus=1, largest_free_units=largest, items=kinds)


def t4(free: int = 4) -> GpuFit:
    """Two nodes with Tesla T4 and a taint, of which one takes pods."""
    taints = ("team=speech:NoSchedule",)
    kind = GpuFit(
        model="Tesla T4", unit="GiB", gpu_memory_mib=15360, gpu_units=14, mode="share", taints=taints
    )
    return structs.replace(kind, nodes=2, open_nodes=1, largest_free_units=free, fitting_pods=free)


def a10(free: int = 16, nodes: int = 4) -> GpuFit:
    """Nodes with NVIDIA A10."""
    return GpuFit(
        model="NVIDIA A10",
        unit="GiB",
        gpu_memory_mib=23028,
        gpu_units=22,
        mode="cgpu",
        labels={"pool": "inference"},
        nodes=nodes,
        open_nodes=nodes,
        largest_free_units=free,
        fitting_pods=free,
    )
