"""``board``: its flags. What it needs is imported when it runs."""

from typing import Any, Final

import click

from gpushare.cli.lib.flag_types import NAMESPACE, URL
from gpushare.cli.lib.flags import cluster_option, with_source
from gpushare.runtime.program import CONTEXT

_EXAMPLES: Final = """\b
Examples:
  kubectl gpushare board
  kubectl gpushare board --open --context staging
  kubectl gpushare board --prometheus http://127.0.0.1:9090
  kubectl gpushare board -n team-a --port 8080"""


@click.command("board", context_settings=CONTEXT, epilog=_EXAMPLES)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    metavar="PORT",
    help="Port on 127.0.0.1 (default: a free one).",
)
@click.option("--open", "opened", is_flag=True, help="Open the page in the browser.")
@click.option(
    "-n",
    "--namespace",
    type=NAMESPACE,
    metavar="NAME",
    help="Show this namespace only, which needs no rights outside of it (default: the whole cluster).",
)
@click.option(
    "--prometheus", type=URL, metavar="URL", help="Where the series of earlier days are (default: none)."
)
@cluster_option
@with_source
def board(
    *,
    source: Any,
    port: int,
    opened: bool,
    namespace: str | None,
    prometheus: str | None,
    cluster: str | None,
) -> None:
    """Show nodes, GPUs, pods and idle memory live on a page in the browser.

    Serves the page on 127.0.0.1 and prints its URL, until interrupted. The URL contains a secret token. Usage
    comes from the exporters. Prometheus is needed only for more than the last hour, and for GPU-hours of
    namespaces. Changes nothing in the cluster. With a namespace, the page has its pods with use and limits,
    why they are pending, and what would fit now.
    """
    if namespace and prometheus:
        raise click.UsageError("--prometheus has the history of the whole cluster: leave out --namespace.")
    from gpushare.board.local import serve
    from gpushare.board.past import ON_ONE_MACHINE, PastSource
    from gpushare.cli.board.browser import open_page

    def announce(url: str) -> None:
        click.echo(url)
        click.echo("Open this URL in a browser on this machine. Ctrl-C ends the board.", err=True)
        if opened:
            open_page(url)

    past = PastSource(prometheus or "", cluster or "", ON_ONE_MACHINE)
    serve(source, port, namespace, past, announce, lambda problem: click.echo(problem, err=True))
