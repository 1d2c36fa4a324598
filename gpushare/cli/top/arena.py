"""Output of ``arena top node`` and ``arena top node -d`` (v0.4.0): whole GPUs.

``arena_share`` has the output with ``-s``. GPUs that the node agent published as unhealthy are counted too,
which arena did not know.
"""

from collections.abc import Sequence
from typing import Final

from gpushare.cli.lib.node_text import NONE, UNKNOWN, WIDE_HEADER, wide_cells
from gpushare.cli.lib.tabwriter import align
from gpushare.contract import RESOURCE_MEM, RESOURCE_WHOLE_GPU
from gpushare.errors import ConfigError
from gpushare.overview.memory_units import percent
from gpushare.overview.node_view import GpuCount, NodeView, PodView

_RULES: Final = {(False, False): 89, (False, True): 99, (True, False): 96, (True, True): 107}
"""Length of the rule by (a node shares, a GPU is unhealthy); independent of the names."""
_DETAIL_RULE: Final = "-" * 89


def summary(nodes: Sequence[NodeView], *, wide: bool = False) -> str:
    """One line per node, then the cluster."""
    shareable = any(node.shared for node in nodes)
    unhealthy = any_unhealthy(nodes)
    header = [
        *("NAME", "IPADDRESS", "ROLE", "STATUS", "GPU(Total)", "GPU(Allocated)"),
        *(["GPU(Unhealthy)"] if unhealthy else []),
        *(["GPU(Shareable)"] if shareable else []),
        *(WIDE_HEADER if wide else ()),
    ]
    rows = [
        [
            *(node.name, node.address, role(node), "ready" if node.ready else "notReady"),
            *(str(node.gpus.total), str(node.gpus.allocated)),
            *([str(node.gpus.unhealthy)] if unhealthy else []),
            *(["Yes" if node.shared else "No"] if shareable else []),
            *(wide_cells(node) if wide else ()),
        ]
        for node in nodes
    ]
    lines = ["\t".join(cells) for cells in (header, *rows)]
    rule = "-" * _RULES[shareable, unhealthy]
    return align("\n".join([*lines, rule, *_summary_foot(nodes, unhealthy=unhealthy), ""]))


def _summary_foot(nodes: Sequence[NodeView], *, unhealthy: bool) -> list[str]:
    total = sum_of(nodes)
    active = sum(node.gpus.total for node in nodes if node.ready)
    lines = ["Allocated/Total GPUs In Cluster:", _share(total.allocated, total.total)]
    if active != total.total:
        lines += ["Allocated/Total GPUs(Active) In Cluster:", _share(total.allocated, active)]
    if unhealthy:
        lines += ["Unhealthy/Total GPUs In Cluster:", _share(total.unhealthy, total.total)]
    return lines


def details(nodes: Sequence[NodeView], *, wide: bool = False) -> str:
    """One block per node, then the cluster."""
    unhealthy = any_unhealthy(nodes)
    total = sum_of(nodes)
    lines = ["", *(line for node in nodes for line in _block(node, unhealthy=unhealthy, wide=wide))]
    lines += ["", "", f"Allocated/Total GPUs In Cluster:\t{_share(total.allocated, total.total)}"]
    if unhealthy:
        lines += [f"Unhealthy/Total GPUs In Cluster:\t{_share(total.unhealthy, total.total)}"]
    return align("\n".join([*lines, ""]))


def _block(node: NodeView, *, unhealthy: bool, wide: bool) -> list[str]:
    extra = [f"{name}:\t{cell}" for name, cell in zip(WIDE_HEADER, wide_cells(node), strict=True)]
    lines = ["", f"NAME:\t{node.name}", f"IPADDRESS:\t{node.address}", f"ROLE:\t{role(node)}"]
    return [
        *lines,
        *(extra if wide else ()),
        *_pods(node),
        *_block_foot(node, unhealthy=unhealthy),
        _DETAIL_RULE,
    ]


def _pods(node: NodeView) -> list[str]:
    pods = [pod for pod in node.pods if (pod.units if node.shared else pod.whole_cards)]
    rows = [f"{pod.namespace}\t{pod.name}\t{_request(pod, node)}\t" for pod in pods]
    return ["", "NAMESPACE\tNAME\tGPU REQUESTS\t ", *rows, ""] if rows else []


def _request(pod: PodView, node: NodeView) -> str:
    """Number of whole GPUs, or fraction of a GPU; more than 1 is possible for a pod on several GPUs."""
    if not node.shared:
        return str(pod.whole_cards)
    sizes = {card.index: card.units for card in node.cards if card.units}
    if not sizes:
        return UNKNOWN
    # The GPU of pending units is unknown; arena used the first one for all pods.
    pending = pod.pending / sizes[min(sizes)]
    return f"{pending + sum(units / sizes[i] for i, units in pod.cards.items() if i in sizes):.2f}"


def _block_foot(node: NodeView, *, unhealthy: bool) -> list[str]:
    gpus = node.gpus
    lines = [] if gpus.total > 0 else [""]
    lines += [f"Total GPUs In Node {node.name}:\t{gpus.total} \t"]
    lines += [f"Allocated GPUs In Node {node.name}:\t{_portion(gpus.allocated, gpus.total)}\t"]
    if node.shared:
        lines += ["If Node is Shareable :\tYes "]
    if unhealthy:
        lines += [f"Unhealthy GPUs In Node {node.name}:\t{_portion(gpus.unhealthy, gpus.total)}\t"]
    return lines


def _share(part: int, total: int) -> str:
    return f"{part}/{total} ({percent(part, total)}%)\t"


def _portion(part: int, total: int) -> str:
    return f"{part} ({percent(part, total)}%)"


def role(node: NodeView) -> str:
    """The node's roles as one cell."""
    return ",".join(node.roles) or NONE


def any_unhealthy(nodes: Sequence[NodeView]) -> bool:
    """Whether the column is shown: a GPU is unhealthy, or a node has unallocatable whole GPUs."""
    return any(node.gpus.unhealthy > 0 or node.whole_cards.unhealthy > 0 for node in nodes)


def sum_of(nodes: Sequence[NodeView]) -> GpuCount:
    """The GPUs of all nodes."""
    gpus = [node.gpus for node in nodes]
    return GpuCount(
        sum(g.total for g in gpus), sum(g.allocated for g in gpus), sum(g.unhealthy for g in gpus)
    )


def chosen(nodes: Sequence[NodeView], *, sharing_only: bool) -> list[NodeView]:
    """The nodes to show. Raises ConfigError, with the text of arena, for one whose GPUs it counts twice."""
    for node in nodes:
        if node.shared and node.whole_cards.total > node.whole_cards.unhealthy:
            raise ConfigError(
                f"{RESOURCE_WHOLE_GPU} and {RESOURCE_MEM} are both used in node {node.name} ."
                "Please use one kind resource of them"
            )
    return [node for node in nodes if node.shared or not sharing_only]
