"""From flags to the screen: which nodes a command shows, in which layout, where and how often."""

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Protocol

import click

from gpushare.cli import tables
from gpushare.cli.cluster import ApiSource, ClusterObjects, show_cluster
from gpushare.cli.document import document, names
from gpushare.cli.exporters import show_exporters
from gpushare.cli.layouts import arena, arena_share
from gpushare.cli.layouts import inspect as inspect_layout
from gpushare.cli.limits_query import find
from gpushare.cli.limits_view import document as document_of_holds
from gpushare.cli.limits_view import table as table_of_holds
from gpushare.cli.options import Flags
from gpushare.cli.usage_tables import (
    Table,
    UsageFilter,
    cards,
    containers,
    metric_of_cards,
    metric_of_pods,
    series,
)
from gpushare.cli.view import NodeView, views_of
from gpushare.contract import RESOURCE_MEM, RESOURCE_WHOLE_GPU
from gpushare.errors import ConfigError
from gpushare.model.selector import parse_selector
from gpushare.monitoring.page import MetricSample

Nodes = list[NodeView]

_CLEAR: Final = "\x1b[H\x1b[2J\x1b[3J"


class Layout(Protocol):
    """A pure function from nodes to text."""

    def __call__(self, nodes: Sequence[NodeView], *, wide: bool = False) -> str:
        """The whole text, line ends included."""


def inspect(flags: Flags, *, details: bool) -> None:
    """Sharing nodes, or the one that is named, whatever it is."""
    layout = inspect_layout.details if details else inspect_layout.summary
    display(flags, layout, lambda nodes: [node for node in nodes if node.shared or flags.node])


def top_node(flags: Flags, *, gpushare: bool, details: bool) -> None:
    """All nodes, cards by the piece; or the memory of sharing nodes."""
    module = arena_share if gpushare else arena

    def choose(nodes: Nodes) -> Nodes:
        refuse_both(nodes)
        return [node for node in nodes if node.shared or not gpushare]

    display(flags, module.details if details else module.summary, choose)


def refuse_both(nodes: Nodes) -> None:
    """A node whose cards are given out twice has no true numbers; arena refuses it in these words."""
    for node in nodes:
        if node.shared and node.whole_cards.total > node.whole_cards.unhealthy:
            raise ConfigError(
                f"{RESOURCE_WHOLE_GPU} and {RESOURCE_MEM} are both used in node {node.name} ."
                "Please use one kind resource of them"
            )


def display(flags: Flags, layout: Layout, choose: Callable[[Nodes], Nodes]) -> None:
    """Show the chosen nodes once, or again and again until interrupted."""
    matches = parse_selector(flags.selector)
    screen = Screen(redraw=flags.watch and sys.stdout.isatty())

    def show(objects: ClusterObjects) -> None:
        wanted = [node for node in objects.nodes if not flags.node or node.metadata.name == flags.node]
        views = views_of((node for node in wanted if matches(node.metadata.labels or {})), objects.pods)
        screen.warn(objects.problems)
        screen.warn(problem for view in views for problem in view.problems)
        screen.show(text_of(choose(views), layout, flags.output))

    source = ApiSource(flags.kubeconfig, flags.context)
    show_cluster(show, screen.report, source=source, node=flags.node, watch=flags.watch)


def use_of_cards(flags: Flags, metric: str | None, *, views: bool) -> None:
    """What all cards do, or those of the node that is named; ``views`` is whether arena's were asked for."""
    if views or flags.selector or flags.output not in (None, "json"):
        raise ConfigError("--use and --metric go with NODE, --watch and --output json only")
    found = metric_of_cards(metric) if metric else None
    wanted = UsageFilter(node=flags.node)
    _show_use(flags, lambda told: series(told, found, wanted) if found else cards(told, wanted))


def use_of_pods(flags: Flags, *, pod: str | None, namespace: str | None, metric: str | None) -> None:
    """What all pods with cards do, or those that are wanted."""
    found = metric_of_pods(metric) if metric else None
    wanted = UsageFilter(node=flags.node, namespace=namespace, pod=pod)
    _show_use(flags, lambda told: series(told, found, wanted) if found else containers(told, wanted))


def limits(flags: Flags, *, pod: str | None, namespace: str | None) -> None:
    """What isolation holds containers to; of a pod that it does not hold, why."""
    screen = Screen(redraw=False)
    wanted = UsageFilter(node=flags.node, namespace=namespace, pod=pod)
    found = find(ApiSource(flags.kubeconfig, flags.context), wanted, screen.report)
    if flags.output in ("json", "yaml"):
        screen.show(_written(document_of_holds(found.container_limits), flags.output))
    elif found.container_limits or not found.not_held:
        layout = tables.coloured if sys.stdout.isatty() else tables.plain
        screen.show(layout(table_of_holds(found.container_limits, wide=flags.output == "wide")))
    for reason in found.not_held:
        screen.report(reason)


def _show_use(flags: Flags, table_of: Callable[[Sequence[MetricSample]], Table]) -> None:
    terminal = sys.stdout.isatty()
    layout = tables.as_json if flags.output else tables.coloured if terminal else tables.plain
    screen = Screen(redraw=flags.watch and terminal)
    show_exporters(
        lambda told: screen.show(layout(table_of(told))),
        screen.report,
        source=ApiSource(flags.kubeconfig, flags.context),
        node=flags.node,
        watch=flags.watch,
    )


def text_of(nodes: Nodes, layout: Layout, output: str | None) -> str:
    """The nodes in the asked format."""
    if output in ("json", "yaml"):
        return _written(document(nodes), output)
    if output == "name":
        return names(nodes)
    return layout(nodes, wide=output == "wide")


def _written(content: dict[str, Any], output: str) -> str:
    if output == "json":
        return json.dumps(content, indent=2) + "\n"
    import yaml  # noqa: PLC0415 - only this format needs it

    text: str = yaml.safe_dump(content, sort_keys=False)
    return f"---\n{text}"


class Screen:
    """Where text goes: redrawn on a terminal, appended elsewhere; the same text is not shown twice."""

    def __init__(self, *, redraw: bool) -> None:
        self._redraw = redraw
        self._shown: str | None = None
        self._said: set[str] = set()

    def show(self, text: str) -> None:
        """Show a whole text."""
        if text != self._shown:
            click.echo((_CLEAR if self._redraw else "") + text, nl=False, color=self._redraw)
        self._shown = text

    def warn(self, problems: Iterable[str]) -> None:
        """Tell of problems with single objects, once each."""
        for problem in problems:
            if problem not in self._said:
                self.report(f"warning: {problem}")
            self._said.add(problem)

    def report(self, words: str) -> None:
        """Tell something that is not data."""
        click.echo(words, err=True)
