"""What decides about a pending pod besides its own spec, nodes and GPU units; and how it is read."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final
from urllib.parse import quote

import msgspec
from msgspec import Struct

from gpushare.adapters.kube.client import KubeClient
from gpushare.errors import ApiError
from gpushare.overview.lists import TIMEOUT_S
from gpushare.overview.objects import ClusterPod
from gpushare.overview.occupancy import NodeUse, PodLoad, load_of, uses_of
from gpushare.overview.storage import Storage, collect_storage

_POD_GROUPS: Final = "/apis/scheduling.k8s.io/{version}/namespaces/{namespace}/podgroups/{name}"
_VERSIONS: Final = ("v1beta1", "v1alpha2")
"""Of Kubernetes 1.37 and 1.36."""


class _Gang(Struct, rename="camel"):
    min_count: int = 0


class _Policy(Struct):
    gang: _Gang | None = None


class _GroupSpec(Struct, rename="camel"):
    scheduling_policy: _Policy = msgspec.field(default_factory=_Policy)


class _PodGroup(Struct):
    spec: _GroupSpec = msgspec.field(default_factory=_GroupSpec)


@dataclass(frozen=True, slots=True)
class Gang:
    """The PodGroup of a pod. ``least`` is the number of pods that must exist, None if there is no group."""

    name: str
    least: int | None
    pods: int


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Bound pods, storage, gang and schedulers at one moment; None and empty values are not checked.

    ``schedulers`` are those that have placed a pod, or reported on one; ``extended`` those that have placed
    a pod by the extender.
    """

    loads: tuple[PodLoad, ...] = ()
    uses: Mapping[str, NodeUse] = field(default_factory=dict)
    storage: Storage | None = None
    gang: Gang | None = None
    schedulers: frozenset[str] = frozenset()
    extended: frozenset[str] = frozenset()


def surroundings_of(loads: Iterable[PodLoad], waiting: Iterable[ClusterPod]) -> Surroundings:
    """The surroundings that the bound pods and the waiting pods of a cluster make."""
    bound = tuple(loads)
    active = {each.scheduler for each in bound} | {each.scheduler for each in waiting if each.seen}
    extended = frozenset(each.scheduler for each in bound if each.extended)
    return Surroundings(bound, uses_of(bound), schedulers=frozenset(active), extended=extended)


async def collect_surroundings(
    client: KubeClient, pod: ClusterPod, pods: Iterable[ClusterPod], notes: list[str]
) -> Surroundings:
    """The surroundings of a pod; what may not be read is added to ``notes``. Raises ApiError."""
    listed = list(pods)
    loads = filter(None, map(load_of, listed))
    found = surroundings_of(loads, (each for each in listed if not each.spec.node_name))
    storage = await collect_storage(client, pod, notes)
    gang = await _gang(client, pod, listed)
    return replace(found, storage=storage, gang=gang)


async def _gang(client: KubeClient, pod: ClusterPod, pods: list[ClusterPod]) -> Gang | None:
    """None without a group, or if it cannot be read."""
    name, namespace = pod.group, pod.metadata.namespace
    if not name:
        return None
    members = sum(each.metadata.namespace == namespace and each.group == name for each in pods)
    for version in _VERSIONS:
        path = _POD_GROUPS.format(
            version=version, namespace=quote(namespace, safe=""), name=quote(name, safe="")
        )
        try:
            body = await client.request("GET", path, timeout_s=TIMEOUT_S)
            policy = msgspec.json.decode(body, type=_PodGroup).spec.scheduling_policy
        except ApiError as error:
            # The API server names the object only if it serves the version.
            if f'"{name}" not found' in str(error):
                return Gang(name, None, members)
        except msgspec.DecodeError:
            return None
        else:
            return Gang(name, policy.gang.min_count if policy.gang else 0, members)
    return None
