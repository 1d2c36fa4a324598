"""``board`` and ``board-server``: their flags.

The work is in ``server`` and ``cluster_server``, which are imported when a command runs.
"""

from typing import Final

import click

from gpushare.cli.board.settings import BoardSettings
from gpushare.cli.commands import connection_options
from gpushare.cli.lazy import CONTEXT
from gpushare.runtime.flags import check_certificate, run_daemon
from gpushare.runtime.settings import settings_command

_EXAMPLES: Final = """\b
Examples:
  kubectl gpushare board
  kubectl gpushare board --open
  kubectl gpushare board --port 8080 --context staging"""


@click.command("board", context_settings=CONTEXT, epilog=_EXAMPLES)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    metavar="PORT",
    help="Port on 127.0.0.1 (default: a free one).",
)
@click.option("--open", "opened", is_flag=True, help="Open the page in the browser.")
@connection_options
def board(*, port: int, opened: bool, kubeconfig: str | None, context: str | None) -> None:
    """Show nodes, GPUs, pods and idle memory live on a page in the browser.

    Serves the page on 127.0.0.1 and prints its URL, until interrupted. The URL has a secret token. Usage
    comes from the exporters; Prometheus is not needed. Changes nothing in the cluster.
    """
    from gpushare.cli.board.browser import open_page
    from gpushare.cli.board.server import serve
    from gpushare.cli.cluster import ApiSource

    def announce(url: str) -> None:
        click.echo(url)
        click.echo("Open this URL in a browser on this machine. Ctrl-C ends the board.", err=True)
        if opened:
            open_page(url)

    serve(ApiSource(kubeconfig, context), port, announce, lambda problem: click.echo(problem, err=True))


_SERVER_EXAMPLES: Final = """\b
Examples:
  gpushare board-server --tls-cert tls.crt --tls-key tls.key
  gpushare board-server --tls-cert tls.crt --tls-key tls.key --kubeconfig config --port 9443"""


@settings_command(BoardSettings, name="board-server", epilog=_SERVER_EXAMPLES)
def board_server(settings: BoardSettings) -> None:
    """Serve the board in a cluster, to users who sign in with a token.

    Users may sign in who may list nodes and the pods of all namespaces; the API server decides that. The
    board reads the exporters from the addresses of their pods. It changes nothing in the cluster.
    """
    from gpushare.cli.board.cluster_server import run

    run_daemon("board-server", settings, run, check=_check)


def _check(settings: BoardSettings) -> None:
    check_certificate(settings, "users send tokens, which no one else may see")
