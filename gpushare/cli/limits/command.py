"""``limits``: its flags. What it needs is imported when it runs."""

from typing import Any, Final

import click

from gpushare.cli.lib.flags import (
    namespace_options,
    node_option,
    pod_argument,
    selector_option,
    with_namespace,
)
from gpushare.runtime.program import CONTEXT

_EXAMPLES: Final = """\b
Examples:
  kubectl gpushare limits -A
  kubectl gpushare limits trainer -n team-a -o wide"""


@click.command("limits", context_settings=CONTEXT, epilog=_EXAMPLES)
@pod_argument
@namespace_options
@node_option()
@selector_option
@click.option("-o", "--output", type=click.Choice(["wide", "json", "yaml"]), help="Output format.")
@with_namespace
def limits(
    *,
    source: Any,
    pod: str | None,
    namespace: str | None,
    node: str | None,
    selector: str,
    output: str | None,
) -> None:
    """Show limit, usage, peak and refused allocations of the containers of a namespace, or of POD.

    Says why other pods that request units have no limits. The rights of one namespace are enough for the pods
    of the namespace.
    """
    from gpushare.cli.lib.screen import Screen, serialized
    from gpushare.cli.limits.collect import collect
    from gpushare.cli.limits.render import limits_document, table
    from gpushare.overview.usage import UsageFilter

    screen = Screen()
    selected = UsageFilter(node, namespace, pod)
    found = source.ask(lambda client: collect(client, selected, selector, screen.report))
    if output in ("json", "yaml"):
        screen.show(serialized(limits_document(found.container_limits), output))
    elif found.container_limits or not found.unlimited:
        screen.show_table(table(found.container_limits, wide=output == "wide"), namespace)
    for reason in found.unlimited:
        screen.report(reason)
