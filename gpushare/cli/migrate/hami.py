"""Converts the workloads of HAMi. Pure.

What HAMi reads: https://github.com/Project-HAMi/HAMi/blob/master/docs/config.md. ``nvidia.com/gpu`` is a
number of GPUs (1 without it), and ``nvidia.com/gpumem`` (MiB), ``nvidia.com/gpumem-percentage`` and
``nvidia.com/gpucores`` (percent) are amounts on each of them. Here, amounts are sums over the GPUs of a pod,
and their number is a label of the pod.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gpushare.cli.migrate.manifest import Json, containers, items, mapping, resources, template
from gpushare.contract import (
    ANN_AVOID_MODELS,
    ANN_AVOID_UUIDS,
    ANN_PLACEMENT,
    ANN_USE_MODELS,
    ANN_USE_UUIDS,
    CORE_PER_CARD,
    CORE_STEP,
    LABEL_CARD_MODEL,
    LABEL_CARDS_PER_POD,
    LABEL_NO_ISOLATION,
    RESOURCE_CORE,
    RESOURCE_MEM,
    RESOURCE_WHOLE_GPU,
)
from gpushare.errors import InvalidRequest
from gpushare.model.quantity import parse_quantity
from gpushare.model.resource_names import HAMI_CORES, HAMI_MEMORY, HAMI_MEMORY_PERCENT
from gpushare.overview.memory_units import NodeUnit
from gpushare.scheduling.placement import Placement

DOMAIN: Final = "nvidia.com/"
MEMORY: Final = HAMI_MEMORY
MEMORY_PERCENT: Final = HAMI_MEMORY_PERCENT
CORES: Final = HAMI_CORES
PRIORITY: Final = "nvidia.com/priority"
SCHEDULER: Final = "hami-scheduler"
PREFIX: Final = "hami.io/"
NODE_LABEL: Final = ("gpu", "on")
"""The label of nodes with HAMi's DaemonSet."""
_SHARES: Final = (MEMORY, MEMORY_PERCENT, CORES)
_OWN: Final = (RESOURCE_WHOLE_GPU, *_SHARES, PRIORITY)
_POLICIES: Final = (f"{PREFIX}gpu-scheduler-policy", f"{PREFIX}node-scheduler-policy")
_PLACEMENTS: Final = {
    "binpack": Placement.BINPACK,
    "spread": Placement.SPREAD,
    "topology-aware": Placement.TOPOLOGY,
}
_MODE: Final = "nvidia.com/vgpu-mode"
_DISABLED: Final = "CUDA_DISABLE_CONTROL"
_CHOICES: Final = {
    "nvidia.com/use-gputype": ANN_USE_MODELS,
    "nvidia.com/nouse-gputype": ANN_AVOID_MODELS,
    "nvidia.com/use-gpuuuid": ANN_USE_UUIDS,
    "nvidia.com/nouse-gpuuuid": ANN_AVOID_UUIDS,
}
_MODELS: Final = (ANN_USE_MODELS, ANN_AVOID_MODELS)
_TYPE_PREFIX: Final = "NVIDIA-"
"""HAMi writes it before the name of a model, which it compares with the annotation."""
_NUMA_BIND: Final = "nvidia.com/numa-bind"
_SELECTION: Final = {
    _NUMA_BIND: f"the policy {Placement.TOPOLOGY} ({ANN_PLACEMENT}) prefers GPUs of one NUMA node"
}
_WHOLE_SELECTION: Final = {
    "nvidia.com/use-gputype": f"use a nodeSelector on {LABEL_CARD_MODEL}",
    "nvidia.com/nouse-gputype": f"use node affinity on {LABEL_CARD_MODEL}",
    **dict.fromkeys(
        ("nvidia.com/use-gpuuuid", "nvidia.com/nouse-gpuuuid", _NUMA_BIND), "the kubelet chooses whole GPUs"
    ),
}
"""The same of pods with whole GPUs, which the extender does not place."""
_PERCENT: Final = 100
_MIB_PER_GIB: Final = 1024


@dataclass(frozen=True, slots=True)
class Units:
    """The unit of the nodes here, and the MiB of one GPU there, if the user states it."""

    unit: NodeUnit = NodeUnit.GIB
    gpu_mib: int | None = None

    def of(self, mib: int) -> int:
        """The fewest units that hold the MiB."""
        return mib if self.unit is NodeUnit.MIB else -(-mib // _MIB_PER_GIB)


@dataclass(slots=True)
class Conversion:
    """A converted manifest, None if that is impossible; what changes, and what is not supported."""

    manifest: Json | None
    changes: list[str] = field(default_factory=list)
    unsupported: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Request:
    """What a container requests on each of its GPUs."""

    gpus: int
    mib: int
    cores: int


def uses_shares(pod: Json) -> bool:
    """Whether a pod template has shares of HAMi."""
    return any(key in resources(container) for _, container in containers(pod) for key in _SHARES)


def uses_whole_gpus(pod: Json) -> bool:
    """Whether a pod template has whole GPUs."""
    return any(RESOURCE_WHOLE_GPU in resources(container) for _, container in containers(pod))


def names_scheduler(pod: Json) -> bool:
    """Whether the pods of a template wait for HAMi's scheduler, whatever they request."""
    return bool(mapping(pod.get("spec")).get("schedulerName") == SCHEDULER)


def names_shares(value: object) -> bool:
    """Whether a key anywhere in the value is a share of HAMi, also as ``limits.nvidia.com/gpumem``."""
    if isinstance(value, dict):
        return any(str(key).endswith(_SHARES) or names_shares(each) for key, each in value.items())
    return isinstance(value, list) and any(map(names_shares, value))


def converted(manifest: Json, units: Units) -> Conversion:
    """The workload with our resources. The argument is not changed."""
    result = Conversion(copy.deepcopy(manifest))
    pod = template(result.manifest or {}) or {}
    try:
        gpus = _convert_containers(pod, units, result)
    except InvalidRequest as error:
        return Conversion(None, unsupported=[str(error)])
    if gpus > 1:
        _part(_part(pod, "metadata"), "labels")[LABEL_CARDS_PER_POD] = str(gpus)
        result.changes.append(f"label {LABEL_CARDS_PER_POD}={gpus}")
    annotations = _annotations(pod)
    _convert_spec(mapping(pod.get("spec")), result)
    _convert_policies(annotations, result)
    _convert_choices(annotations, result)
    _remove_annotations(annotations, _SELECTION, result)
    return result


def released(manifest: Json) -> Conversion:
    """The workload without what only HAMi fulfils; its resources stay. The argument is not changed."""
    result = Conversion(copy.deepcopy(manifest))
    pod = template(result.manifest or {}) or {}
    annotations = _annotations(pod)
    _convert_spec(mapping(pod.get("spec")), result)
    if policies := _policies(annotations):
        result.unsupported.append(
            f"scheduler policies {', '.join(policies)}: kube-scheduler places whole GPUs"
        )
    _remove_annotations(annotations, _WHOLE_SELECTION, result)
    return result


def _convert_containers(pod: Json, units: Units, result: Conversion) -> int:
    """The number of GPUs of the pod. Raises InvalidRequest for what cannot be converted."""
    found: dict[str, _Request] = {}
    for name, container in containers(pod):
        requested = resources(container)
        if any(key in requested for key in (RESOURCE_WHOLE_GPU, *_SHARES)):
            found[name] = _request(name, requested, units)
            _replace(name, container, found[name], units, result)
        if any(each.get("name") == _DISABLED for each in items(container.get("env"))):
            result.unsupported.append(
                f"{name}: env {_DISABLED} switches HAMi's limits off; here, the node label "
                f"{LABEL_NO_ISOLATION}=true does"
            )
    numbers = {each.gpus for each in found.values()}
    if len(numbers) > 1:
        raise InvalidRequest(
            f"its containers request {', '.join(map(str, sorted(numbers)))} GPUs; all containers of a pod "
            "share the same GPUs here: split the pod"
        )
    return numbers.pop()


def _request(name: str, requested: Json, units: Units) -> _Request:
    gpus = _number(name, requested, RESOURCE_WHOLE_GPU) if RESOURCE_WHOLE_GPU in requested else 1
    cores = _number(name, requested, CORES)
    if gpus < 1:
        raise InvalidRequest(f"{name}: {RESOURCE_WHOLE_GPU}={gpus} is not a number of GPUs")
    if cores > CORE_PER_CARD:
        raise InvalidRequest(f"{name}: {CORES}={cores} is more than a GPU has ({CORE_PER_CARD})")
    return _Request(gpus, _mib(name, requested, units), -(-cores // CORE_STEP) * CORE_STEP)


def _mib(name: str, requested: Json, units: Units) -> int:
    mib, percent = _number(name, requested, MEMORY), _number(name, requested, MEMORY_PERCENT)
    if mib:
        return mib
    if percent and units.gpu_mib:
        return -(-min(percent, _PERCENT) * units.gpu_mib // _PERCENT)
    if percent:
        raise InvalidRequest(
            f"{name}: {MEMORY_PERCENT}={percent} depends on the size of the GPU: state it with --gpu-mib"
        )
    raise InvalidRequest(
        f"{name}: without {MEMORY} it has all memory of a GPU: request it as MiB, or the whole GPU "
        f"({RESOURCE_WHOLE_GPU}) on a node that does not share, in another pod than the shares"
    )


def _number(name: str, requested: Json, key: str) -> int:
    try:
        number = parse_quantity(requested.get(key, 0))
    except InvalidRequest as error:
        raise InvalidRequest(f"{name}: {key}: {error}") from error
    if number < 0:
        raise InvalidRequest(f"{name}: {key}={number} is negative")
    return number


def _replace(name: str, container: Json, wanted: _Request, units: Units, result: Conversion) -> None:
    before = ", ".join(f"{key}={value}" for key, value in resources(container).items() if key in _OWN)
    if PRIORITY in resources(container):
        result.unsupported.append(f"{name}: {PRIORITY} has no counterpart; a priorityClassName preempts")
    limits = {RESOURCE_MEM: wanted.gpus * units.of(wanted.mib)}
    if wanted.cores:
        limits[RESOURCE_CORE] = wanted.gpus * wanted.cores
    for part in ("requests", "limits"):
        kept = mapping(mapping(container.get("resources")).get(part))
        for key in _OWN:
            kept.pop(key, None)
    _part(_part(container, "resources"), "limits").update(limits)
    after = ", ".join(f"{key}={value}" for key, value in limits.items())
    result.changes.append(f"{name}: {before} → {after}")


def _convert_spec(spec: Json, result: Conversion) -> None:
    if spec.get("schedulerName") == SCHEDULER:
        del spec["schedulerName"]
        result.changes.append(f"schedulerName {SCHEDULER} → the default")
    label, value = NODE_LABEL
    selector = mapping(spec.get("nodeSelector"))
    if selector.get(label) == value:
        del selector[label]
        if not selector:
            del spec["nodeSelector"]
        result.changes.append(f"nodeSelector {label}={value} removed: a node loses this label of HAMi")
    if any(_needs_label(each) for each in _required_expressions(spec)):
        result.unsupported.append(
            f"required node affinity on {label}: a node loses this label of HAMi, remove it by hand"
        )


def _required_expressions(spec: Json) -> list[Json]:
    """All expressions of the required node affinity."""
    affinity = mapping(mapping(spec.get("affinity")).get("nodeAffinity"))
    required = mapping(affinity.get("requiredDuringSchedulingIgnoredDuringExecution"))
    terms = items(required.get("nodeSelectorTerms"))
    return [each for term in terms for each in items(term.get("matchExpressions"))]


def _needs_label(expression: Json) -> bool:
    """Whether HAMi's label of nodes fulfils the expression, and its absence does not."""
    label, value = NODE_LABEL
    if expression.get("key") != label:
        return False
    values = expression.get("values")
    listed = isinstance(values, list) and value in values
    return expression.get("operator") == "Exists" or (expression.get("operator") == "In" and listed)


def _annotations(pod: Json) -> Json:
    return mapping(mapping(pod.get("metadata")).get("annotations"))


def _policies(annotations: Json) -> list[str]:
    return sorted({str(annotations[key]) for key in _POLICIES if key in annotations})


def _convert_policies(annotations: Json, result: Conversion) -> None:
    wanted = _policies(annotations)
    if len(wanted) == 1 and wanted[0] in _PLACEMENTS:
        annotations[ANN_PLACEMENT] = _PLACEMENTS[wanted[0]].value
        result.changes.append(f"annotation {ANN_PLACEMENT}={annotations[ANN_PLACEMENT]}")
    elif wanted:
        result.unsupported.append(
            f"scheduler policies {', '.join(wanted)}: one policy places on nodes and GPUs here"
        )


def _convert_choices(annotations: Json, result: Conversion) -> None:
    for theirs, ours in _CHOICES.items():
        if theirs not in annotations:
            continue
        before = str(annotations.pop(theirs))
        names = [name.strip() for name in before.split(",")]
        if ours in _MODELS:
            names = [name.removeprefix(_TYPE_PREFIX) for name in names]
        annotations[ours] = ",".join(filter(None, names))
        result.changes.append(f"annotation {theirs}={before} → {ours}={annotations[ours]}")


def _remove_annotations(annotations: Json, selection: Mapping[str, str], result: Conversion) -> None:
    for key, advice in selection.items():
        if key in annotations:
            result.unsupported.append(f"annotation {key}={annotations.pop(key)}: {advice}")
    if annotations.pop(_MODE, "hami-core") != "hami-core":
        result.unsupported.append(f"annotation {_MODE}: GPUs with MIG are not shared")
    for key in [key for key in annotations if str(key).startswith(PREFIX)]:
        del annotations[key]


def _part(parent: Json, key: str) -> Json:
    """The mapping at that key, made if it is absent."""
    found = mapping(parent.get(key))
    parent[key] = found
    return found
