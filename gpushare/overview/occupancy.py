"""What bound pods take on their nodes besides GPU units: requests, host ports, and room for others. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from gpushare.overview.affinity import PodTerm
from gpushare.overview.objects import ClusterPod
from gpushare.overview.pod_spec import ClusterContainer
from gpushare.overview.requests import Amounts, requests_of, summed

HostPort = tuple[str, str, int]
"""Protocol, address and number; the address ``0.0.0.0`` stands for all of the node."""
ALL_ADDRESSES: Final = "0.0.0.0"  # noqa: S104 - the address of a host port, not one that we listen on


@dataclass(frozen=True, slots=True)
class PodLoad:
    """A bound pod that has not ended. ``repels`` are the terms of its anti-affinity.

    ``extended`` is whether an extender of GPU sharing has placed it.
    """

    node: str
    namespace: str
    labels: Mapping[str, str]
    requests: Amounts = ()
    ports: tuple[HostPort, ...] = ()
    repels: tuple[PodTerm, ...] = ()
    terminating: bool = False
    scheduler: str = ""
    extended: bool = False


def load_of(pod: ClusterPod) -> PodLoad | None:
    """The load of a pod; None if it is not bound, or has ended."""
    spec = pod.spec
    if not spec.node_name or pod.status.phase in ("Succeeded", "Failed"):
        return None
    return PodLoad(
        spec.node_name,
        pod.metadata.namespace,
        _shared(tuple(pod.labels.items())),
        requests_of(spec),
        host_ports(pod),
        spec.affinity.repelling if spec.affinity else (),
        pod.metadata.deletion_timestamp is not None,
        pod.scheduler,
        pod.extended,
    )


@lru_cache(maxsize=10_000)
def _shared(labels: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    """Return one object for equal labels: the pods of a controller have the same."""
    return dict(labels)


def host_ports(pod: ClusterPod) -> tuple[HostPort, ...]:
    """The ports that a pod needs on its node."""
    return tuple(
        (port.protocol, port.host_ip or ALL_ADDRESSES, port.host_port)
        for container in (*(pod.spec.containers or ()), *_sidecars(pod))
        for port in container.ports or ()
        if port.host_port
    )


def _sidecars(pod: ClusterPod) -> list[ClusterContainer]:
    return [each for each in pod.spec.init_containers or () if each.restart_policy == "Always"]


def conflict(wanted: HostPort, taken: HostPort) -> bool:
    """Whether two pods with these ports cannot be on one node."""
    same = (wanted[0], wanted[2]) == (taken[0], taken[2])
    return same and (wanted[1] == taken[1] or ALL_ADDRESSES in (wanted[1], taken[1]))


@dataclass(frozen=True, slots=True)
class NodeUse:
    """What the pods of a node take together."""

    requests: Mapping[str, int] = field(default_factory=dict)
    pods: int = 0
    ports: tuple[HostPort, ...] = ()


def uses_of(loads: Iterable[PodLoad]) -> dict[str, NodeUse]:
    """The use of each node with pods."""
    by_node: defaultdict[str, list[PodLoad]] = defaultdict(list)
    for load in loads:
        by_node[load.node].append(load)
    return {
        name: NodeUse(
            summed(each.requests for each in found),
            len(found),
            tuple(port for each in found for port in each.ports),
        )
        for name, found in by_node.items()
    }
