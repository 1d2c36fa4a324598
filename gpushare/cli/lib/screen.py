"""From flags to the screen: what a command shows, in which layout and how often."""

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import click

from gpushare.cli.inspect import render as inspect_layout
from gpushare.cli.lib import text_table as tables
from gpushare.cli.limits.collect import find
from gpushare.cli.top import arena, arena_share
from gpushare.contract import RESOURCE_MEM, RESOURCE_WHOLE_GPU
from gpushare.errors import ConfigError
from gpushare.model.selector import parse_selector
from gpushare.monitoring.page import MetricSample
from gpushare.overview.cluster import ApiSource, ClusterObjects, show_cluster
from gpushare.overview.exporters import show_exporters
from gpushare.overview.limits import document as limits_document
from gpushare.overview.limits import table as limits_table
from gpushare.overview.node_document import document, names, serialized
from gpushare.overview.node_view import NodeView, views_of
from gpushare.overview.usage import (
    Usage,
    UsageFilter,
    cards,
    containers,
    metric_of_cards,
    metric_of_pods,
    series,
    table,
)
from gpushare.overview.usage import document as usage_document

Nodes = list[NodeView]

_CLEAR: Final = "\x1b[H\x1b[2J\x1b[3J"


@dataclass(frozen=True, slots=True)
class Flags:
    """The values of the flags that the commands share."""

    node: str | None = None
    output: str | None = None
    selector: str = ""
    watch: bool = False
    kubeconfig: str | None = None
    context: str | None = None

    @property
    def source(self) -> ApiSource:
        """The selected cluster."""
        return ApiSource(self.kubeconfig, self.context)

    def usage_filter(self, pod: str | None, namespace: str | None, *, everywhere: bool) -> UsageFilter:
        """The selected pods, of kubectl's namespace if no other is named. Raises ConfigError."""
        return UsageFilter(self.node, self.source.namespace(namespace, everywhere=everywhere), pod)


class Layout(Protocol):
    """A pure function from nodes to text."""

    def __call__(self, nodes: Sequence[NodeView], *, wide: bool = False) -> str:
        """The complete text, with line ends."""


def inspect(flags: Flags, *, details: bool) -> None:
    """Shows all sharing nodes, or the named node even if it does not share."""
    layout = inspect_layout.details if details else inspect_layout.summary
    display(flags, layout, lambda nodes: [node for node in nodes if node.shared or flags.node])


def top_node(flags: Flags, *, gpushare: bool, details: bool) -> None:
    """Shows whole GPUs of all nodes; with ``gpushare``, the GPU memory of sharing nodes."""
    module = arena_share if gpushare else arena

    def choose(nodes: Nodes) -> Nodes:
        reject_both_resources(nodes)
        return [node for node in nodes if node.shared or not gpushare]

    display(flags, module.details if details else module.summary, choose)


def reject_both_resources(nodes: Nodes) -> None:
    """Raises ConfigError, with the text of arena, for a node with both resources: it counts GPUs twice."""
    for node in nodes:
        if node.shared and node.whole_cards.total > node.whole_cards.unhealthy:
            raise ConfigError(
                f"{RESOURCE_WHOLE_GPU} and {RESOURCE_MEM} are both used in node {node.name} ."
                "Please use one kind resource of them"
            )


def display(flags: Flags, layout: Layout, choose: Callable[[Nodes], Nodes]) -> None:
    """Shows the chosen nodes once, or after every change until interrupted."""
    matches = parse_selector(flags.selector)
    screen = Screen(redraw=flags.watch and sys.stdout.isatty())

    def show(objects: ClusterObjects) -> None:
        selected = [node for node in objects.nodes if not flags.node or node.metadata.name == flags.node]
        views = views_of((node for node in selected if matches(node.metadata.labels or {})), objects.pods)
        screen.warn(objects.problems)
        screen.warn(problem for view in views for problem in view.problems)
        screen.show(text_of(choose(views), layout, flags.output))

    show_cluster(show, screen.report, source=flags.source, node=flags.node, watch=flags.watch)


def gpu_usage(flags: Flags, metric: str | None, *, views: bool) -> None:
    """Shows the usage of all GPUs, or of the named node; ``views`` is whether flags select an arena view."""
    if views or flags.selector or flags.output not in (None, "json", "yaml"):
        raise click.UsageError("--use and --metric support only NODE, --watch and --output json or yaml")
    found = metric_of_cards(metric) if metric else None
    usage_filter = UsageFilter(node=flags.node)
    _show_usage(
        flags, lambda samples: series(samples, found, usage_filter) if found else cards(samples, usage_filter)
    )


def pod_usage(flags: Flags, usage_filter: UsageFilter, metric: str | None) -> None:
    """Shows the usage of the selected pods with GPUs."""
    found = metric_of_pods(metric) if metric else None
    _show_usage(
        flags,
        lambda samples: series(samples, found, usage_filter) if found else containers(samples, usage_filter),
        usage_filter.namespace,
    )


def limits(flags: Flags, usage_filter: UsageFilter) -> None:
    """Shows the limits of containers; for a pod without limits, the reason."""
    screen = Screen(redraw=False)
    found = find(flags.source, usage_filter, screen.report)
    if flags.output in ("json", "yaml"):
        screen.show(serialized(limits_document(found.container_limits), flags.output))
    elif found.container_limits or not found.unlimited:
        screen.show(formatted(limits_table(found.container_limits, wide=flags.output == "wide")))
        note_namespace(screen, found.container_limits, usage_filter.namespace)
    for reason in found.unlimited:
        screen.report(reason)


def formatted(table: tables.Table) -> str:
    """A table in colours on a terminal, else in plain columns."""
    return tables.coloured(table) if sys.stdout.isatty() else tables.plain(table)


def note_namespace(screen: "Screen", rows: Sequence[object], namespace: str | None) -> None:
    """An empty table may be due to the default of the namespace."""
    if namespace and not rows:
        screen.warn([f"only namespace {namespace} was searched; -A selects all"])


def _show_usage(
    flags: Flags, usage_of: Callable[[Sequence[MetricSample]], Usage], namespace: str | None = None
) -> None:
    terminal = sys.stdout.isatty()
    layout = tables.coloured if terminal else tables.plain
    screen = Screen(redraw=flags.watch and terminal)

    def show(samples: Sequence[MetricSample]) -> None:
        usage = usage_of(samples)
        if flags.output:
            screen.show(serialized(usage_document(usage), flags.output))
        else:
            screen.show(layout(table(usage)))
            note_namespace(screen, usage.rows, namespace)

    show_exporters(
        show,
        screen.report,
        source=flags.source,
        node=flags.node,
        watch=flags.watch,
    )


def text_of(nodes: Nodes, layout: Layout, output: str | None) -> str:
    """The nodes in the requested format."""
    if output in ("json", "yaml"):
        return serialized(document(nodes), output)
    if output == "name":
        return names(nodes)
    return layout(nodes, wide=output == "wide")


class Screen:
    """Output: redrawn on a terminal, appended elsewhere; the same text is not shown twice in a row."""

    def __init__(self, *, redraw: bool) -> None:
        self._redraw = redraw
        self._shown: str | None = None
        self._reported: set[str] = set()

    def show(self, text: str) -> None:
        """Shows a complete text."""
        if text != self._shown:
            click.echo((_CLEAR if self._redraw else "") + text, nl=False, color=self._redraw)
        self._shown = text

    def warn(self, problems: Iterable[str]) -> None:
        """Reports problems of single objects, once each."""
        for problem in problems:
            if problem not in self._reported:
                self.report(f"warning: {problem}")
            self._reported.add(problem)

    def report(self, message: str) -> None:
        """Writes a message to stderr."""
        click.echo(message, err=True)
