"""The ConfigMaps that list the unhealthy GPUs of nodes. Pure.

As for the extender, an entry that names no GPU changes nothing, and is reported.
"""

from collections.abc import Iterable, Iterator

from gpushare.adapters.kube.wire import WireConfigMap
from gpushare.contract import UNHEALTHY_KEY, UNHEALTHY_PREFIX
from gpushare.model.cards import parse_indices, unhealthy_map, unreadable_list


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
