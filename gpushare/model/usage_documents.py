"""The documents of the usage API (``usage.gpushare.io``), which servers write and the tools read. Pure.

Amounts are in bytes, or in units of ``aliyun.com/gpu-mem`` where the name says so. An unknown value is null,
never 0. No document names a namespace or a pod besides those of the namespace that was asked for.

What does not belong here: the fields of an explanation, which are those of
``gpushare.overview.explain.answer.Answer``, beside ``apiVersion``, ``kind`` and ``metadata``.
"""

from typing import Final

from msgspec import Struct, field

from gpushare.contract import USAGE_API_GROUP, USAGE_API_VERSION

USAGE_VERSION: Final = f"{USAGE_API_GROUP}/{USAGE_API_VERSION}"
EXPLANATION: Final = "GpuPodExplanation"


class UsageMeta(Struct, frozen=True, kw_only=True, rename="camel"):
    """The metadata of a pod. ``creation_timestamp`` is in RFC 3339, as the API server writes it."""

    name: str
    namespace: str
    creation_timestamp: str | None = None
    labels: dict[str, str] = field(default_factory=dict)


class EmptyMeta(Struct, frozen=True):
    """The metadata of a list, which has no version to watch from."""


class UsageOwner(Struct, frozen=True):
    """The workload that a pod belongs to, such as a Deployment; a pod without a controller is its own."""

    kind: str
    name: str


class ContainerGpu(Struct, frozen=True, kw_only=True, rename="camel"):
    """One GPU of a container. Each number but ``gpu_memory_bytes`` is the container's, not the whole GPU's.

    ``used_bytes`` is what the driver reports. ``counted_bytes``, ``peak_bytes``, ``refusals``,
    ``largest_refused_bytes`` and ``needed_bytes`` are what the isolation library counted since the start of
    the container; ``needed_bytes`` is the smallest limit that admits each refused request at its moment.
    ``uncounted_bytes`` is memory that the driver reports and the library did not count. ``utilization`` is
    the part of the GPU's time that the container's kernels ran, from 0 to 1. ``limit_bytes`` is the enforced
    limit; without one, ``no_limit`` is why.
    """

    index: int | None = None
    model: str | None = None
    uuid: str | None = None
    allocated_bytes: int | None = None
    limit_bytes: int | None = None
    no_limit: str | None = None
    used_bytes: int | None = None
    counted_bytes: int | None = None
    uncounted_bytes: int | None = None
    peak_bytes: int | None = None
    refusals: int | None = None
    largest_refused_bytes: int | None = None
    needed_bytes: int | None = None
    gpu_memory_bytes: int | None = None
    utilization: float | None = None


class GpuContainer(Struct, frozen=True, kw_only=True, rename="camel"):
    """A container that requests units. ``requested_units`` are the sum over its GPUs.

    ``gpus`` are those that its node's exporter reports; empty before the container has a GPU.
    """

    name: str
    requested_units: int
    gpus: tuple[ContainerGpu, ...] = ()


class GpuPod(Struct, frozen=True, kw_only=True, rename="camel"):
    """A pod that requests units of GPU memory.

    ``phase`` is that of its status. ``state`` is the word that ``kubectl get pods`` shows, such as
    ``ErrImagePull``. ``problem`` is why its request is invalid. ``unit`` is ``GiB`` or ``MiB``, null before
    its node is known. ``requested_units`` are the sum over ``requested_gpus`` GPUs, null if the request is
    invalid. ``gpu_indexes`` are the GPUs that it was given, null if they are not known. ``measured`` is
    whether the exporter of its node answered; if not, the numbers of its containers are null.
    """

    api_version: str = USAGE_VERSION
    kind: str = "GpuPod"
    metadata: UsageMeta
    phase: str | None = None
    state: str | None = None
    problem: str | None = None
    workload: UsageOwner
    node: str | None = None
    scheduler_name: str | None = None
    unit: str | None = None
    requested_units: int | None = None
    requested_gpus: int | None = None
    gpu_indexes: tuple[int, ...] | None = None
    measured: bool = False
    containers: tuple[GpuContainer, ...] = ()


class GpuPodList(Struct, frozen=True, kw_only=True, rename="camel"):
    """The pods of one namespace that request units, sorted by name.

    ``notes`` are limits of what could be read, such as exporters that did not answer.
    """

    api_version: str = USAGE_VERSION
    kind: str = "GpuPodList"
    metadata: EmptyMeta = field(default_factory=EmptyMeta)
    items: tuple[GpuPod, ...] = ()
    notes: tuple[str, ...] = ()


class GpuFit(Struct, frozen=True, kw_only=True, rename="camel"):
    """One kind of node: nodes with the same GPUs, unit, pool and taints.

    ``unit`` is ``GiB`` or ``MiB``, null if unknown. ``gpu_memory_mib`` is the memory of one GPU.
    ``gpu_units`` are the units of its largest GPU. ``labels`` are those that name a pool of nodes.
    ``taints`` are those that a pod has to tolerate, as ``key=value:effect``. ``nodes`` counts all of the
    kind, ``open_nodes`` those that take pods. ``largest_free_units`` is the largest request on each GPU that
    fits on one of the nodes now, 0 if none does. ``fitting_pods`` is how many pods of the asked size fit.
    """

    model: str | None = None
    unit: str | None = None
    gpu_memory_mib: int | None = None
    gpu_units: int | None = None
    mode: str | None = None
    labels: dict[str, str] = field(default_factory=dict)
    taints: tuple[str, ...] = ()
    nodes: int = 0
    open_nodes: int = 0
    largest_free_units: int = 0
    fitting_pods: int = 0


class GpuFitList(Struct, frozen=True, kw_only=True, rename="camel"):
    """What would fit now: pods with ``units`` on each of ``gpus`` GPUs of one node, memory only.

    Considered are GPUs and their units, pods that wait for a node, and nodes that take no pods; not CPU,
    memory, taints, quotas or selectors. ``largest_free_units`` is the largest request on each of ``gpus``
    GPUs that fits on a node now, 0 if none does. ``fitting_pods`` is how many pods of the asked size fit.
    ``units`` and ``gpus`` are 1 if they were not asked for.
    """

    api_version: str = USAGE_VERSION
    kind: str = "GpuFitList"
    metadata: EmptyMeta = field(default_factory=EmptyMeta)
    units: int
    gpus: int
    largest_free_units: int = 0
    fitting_pods: int = 0
    items: tuple[GpuFit, ...] = ()
    notes: tuple[str, ...] = ()
