"""Links between the GPUs of a machine, from NVML.

Two GPUs have an NVLink if an active link of one ends at the other, or if both have active links to the
same device, which is then a switch.
"""

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any, Final

import pynvml

from gpushare.adapters.nvml.library import Library, NvmlRefusal
from gpushare.model.hardware import Gpu, Link

_LEVELS: Final = {
    pynvml.NVML_TOPOLOGY_INTERNAL: Link.BOARD,
    pynvml.NVML_TOPOLOGY_SINGLE: Link.SWITCH,
    pynvml.NVML_TOPOLOGY_MULTIPLE: Link.SWITCHES,
    pynvml.NVML_TOPOLOGY_HOSTBRIDGE: Link.HOST_BRIDGE,
    pynvml.NVML_TOPOLOGY_NODE: Link.NUMA_NODE,
    pynvml.NVML_TOPOLOGY_SYSTEM: Link.SYSTEM,
}


def read_links(library: Library, gpus: Mapping[int, tuple[Any, Gpu]]) -> dict[tuple[int, int], Link]:
    """Return the best link of each pair of GPUs; pairs that NVML does not report are omitted."""
    ends = {index: frozenset(_far_ends(library, handle)) for index, (handle, _) in gpus.items()}
    cards = frozenset(gpu.pci.lower() for _, gpu in gpus.values())
    links = {}
    for first, second in combinations(sorted(gpus), 2):
        direct = gpus[second][1].pci.lower() in ends[first]
        switched = (ends[first] & ends[second]) - cards
        link = Link.NVLINK if direct or switched else _ancestor(library, gpus[first][0], gpus[second][0])
        if link is not None:
            links[first, second] = link
    return links


def _far_ends(library: Library, handle: Any) -> Iterator[str]:
    """Yield the bus IDs at the other end of a GPU's active NVLinks."""
    for number in range(pynvml.NVML_NVLINK_MAX_LINKS):
        try:
            if library.call("nvmlDeviceGetNvLinkState", handle, number):
                yield library.call("nvmlDeviceGetNvLinkRemotePciInfo", handle, number).busId.lower()
        except NvmlRefusal:
            # The GPU has no such link; not all drivers report the number of links.
            continue


def _ancestor(library: Library, first: Any, second: Any) -> Link | None:
    try:
        return _LEVELS.get(library.call("nvmlDeviceGetTopologyCommonAncestor", first, second))
    except NvmlRefusal:
        return None
