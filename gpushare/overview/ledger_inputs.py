"""What decides about pods besides nodes and pods: lists of unhealthy GPUs, and a flag of the extender.

As for the extender, an entry of a list that names no GPU changes nothing, and is reported.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from gpushare.adapters.kube.client import KubeClient
from gpushare.adapters.kube.wire import WireConfigMap, WireNode, core_node
from gpushare.contract import EXTENDER_NAME, SYSTEM_NAMESPACE, UNHEALTHY_KEY, UNHEALTHY_PREFIX
from gpushare.errors import ApiError
from gpushare.model.cards import parse_indices, unhealthy_map, unreadable_list
from gpushare.model.modes import CGPU_PODS, Mode
from gpushare.model.objects import Node
from gpushare.overview.lists import decoded, if_allowed, listed, pods_path
from gpushare.overview.system_pods import SystemPod

_CONFIG_MAPS: Final = f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/configmaps"
_SYSTEM_PODS: Final = pods_path(SYSTEM_NAMESPACE)


async def collect_unhealthy(client: KubeClient, notes: list[str]) -> dict[str, frozenset[int]]:
    """The indices of unhealthy GPUs by node. Raises ApiError.

    A missing right, and entries that name no GPU, are added to ``notes``.
    """
    raws = await if_allowed(listed(client, _CONFIG_MAPS))
    if isinstance(raws, ApiError):
        notes.append(f"this account may not list ConfigMaps in {SYSTEM_NAMESPACE}: {raws}")
        return {}
    config_maps = decoded(raws, WireConfigMap, _CONFIG_MAPS)
    notes += unreadable_by_node(config_maps).values()
    return unhealthy_by_node(config_maps)


async def collect_cgpu_pods(client: KubeClient) -> int:
    """As ``cgpu_pods_of``; the default without the right to list pods of kube-system. Raises ApiError."""
    raws = await if_allowed(listed(client, _SYSTEM_PODS, {"labelSelector": f"component={EXTENDER_NAME}"}))
    return cgpu_pods_of([] if isinstance(raws, ApiError) else decoded(raws, SystemPod, _SYSTEM_PODS))


def cgpu_pods_of(pods: Iterable[SystemPod]) -> int:
    """The extender's maximum of pods on a GPU of mode ``cgpu``, from its command line."""
    ours = (pod for pod in pods if pod.component == EXTENDER_NAME)
    values = (container.flag("cgpu-pods-per-card") or "" for pod in ours for container in pod.spec.containers)
    return next((int(value) for value in values if value.isdecimal()), CGPU_PODS)


def node_of(wire: WireNode, cgpu_pods: int) -> Node:
    """The node, as the extender sees it with that maximum."""
    node = core_node(wire)
    return replace(node, pods_per_card=cgpu_pods) if node.mode is Mode.CGPU else node


def unhealthy_by_node(config_maps: Iterable[WireConfigMap]) -> dict[str, frozenset[int]]:
    """The indices of unhealthy GPUs by node, from the ConfigMaps of kube-system."""
    return {node: parse_indices(text or "")[0] for node, text in _lists(config_maps)}


def unreadable_by_node(config_maps: Iterable[WireConfigMap]) -> dict[str, str]:
    """The problem of each list that is missing, or has entries that name no GPU, by node."""
    parsed = ((node, None if text is None else parse_indices(text)[1]) for node, text in _lists(config_maps))
    return {
        node: _without_list(node) if entries is None else unreadable_list(node, entries)
        for node, entries in parsed
        if entries != ()
    }


def _without_list(node: str) -> str:
    return f"{unhealthy_map(node)} has no key {UNHEALTHY_KEY}; write {UNHEALTHY_KEY}: 0,2, or delete it"


def _lists(config_maps: Iterable[WireConfigMap]) -> Iterator[tuple[str, str | None]]:
    """Node and list of each of these ConfigMaps; None without a list."""
    for each in config_maps:
        if each.metadata.name.startswith(UNHEALTHY_PREFIX):
            node = each.metadata.name.removeprefix(UNHEALTHY_PREFIX)
            yield node, (each.data or {}).get(UNHEALTHY_KEY)
