"""Nodes on the screen: once, or again after every change."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from gpushare.adapters.kube.client import KubeClient
from gpushare.cli.lib.screen import serialized, watching_screen
from gpushare.model.demand import Malformed
from gpushare.model.selector import parse_selector
from gpushare.overview.connection import ApiSource
from gpushare.overview.gpu_pods import (
    ClusterObjects,
    PodRecord,
    collect_objects,
    objects_of,
    read_node,
    read_pod,
)
from gpushare.overview.lists import NODES, PODS
from gpushare.overview.node_document import nodes_document
from gpushare.overview.node_view import NodeView, views_of
from gpushare.overview.objects import ClusterNode
from gpushare.overview.watch import ReportingInformer, resource

_SETTLE_S: Final = 0.5
"""Changes come in bursts (a Deployment scales); one refresh per half second is enough."""


class NodeLayout(Protocol):
    """A pure function from nodes to text."""

    def __call__(self, nodes: Sequence[NodeView], *, wide: bool = False) -> str:
        """The complete text, with line ends."""


@dataclass(frozen=True, slots=True)
class NodeFlags:
    """Which nodes are shown, in which format and how often: the flags of ``node_options``."""

    source: ApiSource
    node: str | None = None
    output: str | None = None
    selector: str = ""
    watch: bool = False


def show_nodes(
    flags: NodeFlags, layout: NodeLayout, choose: Callable[[list[NodeView]], list[NodeView]]
) -> None:
    """Shows the chosen nodes once, or after every change until interrupted.

    Raises ApiError and ConfigError; a watch raises them for the first list only.
    """
    matches = parse_selector(flags.selector)
    screen = watching_screen(watch=flags.watch)

    def show(objects: ClusterObjects) -> None:
        selected = [node for node in objects.nodes if not flags.node or node.metadata.name == flags.node]
        views = views_of((node for node in selected if matches(node.metadata.labels or {})), objects.pods)
        screen.warn(objects.problems)
        screen.warn(problem for view in views for problem in view.problems)
        screen.show(text_of(choose(views), layout, flags.output))

    async def run(client: KubeClient) -> None:
        # Once without the watch: an unknown node or a missing right is an error, not a reason to wait.
        show(await collect_objects(client, flags.node))
        if flags.watch:
            await _follow(client, show, screen.report)

    flags.source.ask(run)


def text_of(nodes: Sequence[NodeView], layout: NodeLayout, output: str | None) -> str:
    """The nodes in the requested format."""
    if output in ("json", "yaml"):
        return serialized(nodes_document(nodes), output)
    if output == "name":
        return "".join(f"node/{node.name}\n" for node in nodes)
    return layout(nodes, wide=output == "wide")


async def _follow(
    client: KubeClient, show: Callable[[ClusterObjects], None], report: Callable[[str], None]
) -> None:
    """Show the cluster now and after every change, until cancelled or until ``show`` raises."""
    changes = asyncio.Event()
    nodes = ReportingInformer[ClusterNode | Malformed](
        client, resource("nodes", NODES, read_node), changes, report
    )
    pods = ReportingInformer[PodRecord | Malformed](client, resource("pods", PODS, read_pod), changes, report)
    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(nodes.run())
            tasks.create_task(pods.run())
            await _show_changes(nodes, pods, changes, show)
    except ExceptionGroup as group:
        raise group.exceptions[0] from group


async def _show_changes(
    nodes: ReportingInformer[ClusterNode | Malformed],
    pods: ReportingInformer[PodRecord | Malformed],
    changes: asyncio.Event,
    show: Callable[[ClusterObjects], None],
) -> None:
    await nodes.listed.wait()
    await pods.listed.wait()
    while True:
        changes.clear()
        show(objects_of(nodes.objects.values(), pods.objects.values()))
        await changes.wait()
        await asyncio.sleep(_SETTLE_S)
