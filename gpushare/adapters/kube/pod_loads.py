"""The CPU and memory that any pod requests, with or without GPUs, as kube-scheduler counts them.

The rule is that of ``PodRequests`` in k8s.io/component-helpers/resource (1.37): the containers' requests,
then those of the pod as a whole, and the overhead of its RuntimeClass. A pod that is being resized counts
with what its spec requests.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, NamedTuple

from msgspec import Struct, field

from gpushare.adapters.kube.wire import PodContainer, PodResources, PodSpec, WirePod, controller_of, pod_of
from gpushare.errors import InvalidRequest
from gpushare.model.demand import ContainerKind
from gpushare.model.objects import Pod
from gpushare.model.quantity import parse_milli, parse_quantity
from gpushare.model.resources import NO_RESOURCES, Load, Resources, requested_by

_BYTES_PER_MIB: Final = 2**20
_BOUND_TO_A_NODE: Final = ("DaemonSet", "Node")
"""Kinds of controllers whose pods have their node from the start; a node owns its static pods."""


class Requests(Struct):
    """Amounts of CPU and memory as quantities."""

    cpu: Any = None
    memory: Any = None


class _Resources(PodResources):
    requests: Requests | None = None


class _Container(PodContainer):
    resources: _Resources | None = None


class _Totals(Struct):
    requests: Requests | None = None


class _Spec(PodSpec, rename="camel"):
    containers: tuple[_Container, ...] | None = None
    init_containers: tuple[_Container, ...] | None = None
    resources: _Totals | None = None
    overhead: Requests | None = None


class LoadedPod(WirePod):
    """A pod with the fields that are read, and its requests of CPU and memory."""

    spec: _Spec = field(default_factory=_Spec)


class ObservedPod(NamedTuple):
    """Any pod. ``managed`` is the pod itself if it names a gpushare resource.

    ``chooses``: whether a scheduler chooses its node among those that share their GPUs, unlike that of a
    DaemonSet's pod or of one with whole GPUs. ``created`` is the time of its creation, as the API writes it.
    """

    load: Load
    finished: bool
    chooses: bool
    created: str
    managed: Pod | None


def observed_pod(wire: LoadedPod) -> tuple[str, ObservedPod]:
    """The UID of a pod, and what is kept of it."""
    meta, spec = wire.metadata, wire.spec
    owner = controller_of(meta)
    chooses = not (owner and owner.kind in _BOUND_TO_A_NODE) and not _has_whole_gpus(spec)
    finished = wire.status.phase in ("Succeeded", "Failed")
    load = Load(_shared_name(spec.node_name or None), requests_of(spec))
    return meta.uid, ObservedPod(load, finished, chooses, meta.creation_timestamp or "", pod_of(wire))


def _has_whole_gpus(spec: _Spec) -> bool:
    limits = (each.resources.limits for each in spec.containers or () if each.resources)
    return any(each and (each.whole or each.time_sliced) not in (None, 0, "0") for each in limits)


def requests_of(spec: _Spec) -> Resources:
    """The requests of a pod; none if one is no quantity, which the API server does not accept."""
    try:
        total = requested_by(_containers(spec))
        if spec.resources and (whole := spec.resources.requests):
            own = _resources(whole)
            total = Resources(
                total.cpu if whole.cpu is None else own.cpu,
                total.memory if whole.memory is None else own.memory,
            )
        return _shared(total.plus(_resources(spec.overhead)))
    except InvalidRequest:
        return NO_RESOURCES


def _containers(spec: _Spec) -> Iterator[tuple[ContainerKind, Resources]]:
    for each in spec.init_containers or ():
        kind = ContainerKind.SIDECAR if each.restart_policy == "Always" else ContainerKind.INIT
        yield kind, _resources(each.resources.requests if each.resources else None)
    for each in spec.containers or ():
        yield ContainerKind.MAIN, _resources(each.resources.requests if each.resources else None)


def _resources(requests: Requests | None) -> Resources:
    if requests is None:
        return NO_RESOURCES
    cpu, memory = requests.cpu, requests.memory
    return Resources(
        0 if cpu is None else parse_milli(cpu),
        0 if memory is None else -(-parse_quantity(memory) // _BYTES_PER_MIB),
    )


@lru_cache(maxsize=10_000)
def _shared_name(name: str | None) -> str | None:
    """Return one object for equal names: many pods have the same node."""
    return name


@lru_cache(maxsize=10_000)
def _shared(found: Resources) -> Resources:
    """Return one object for equal amounts: the pods of a controller have the same."""
    return found
