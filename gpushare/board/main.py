"""``gpushare board-server``: command line."""

from typing import Final

from gpushare.board.settings import BoardSettings
from gpushare.runtime.flags import check_certificate, run_daemon
from gpushare.runtime.settings import settings_command

_EXAMPLES: Final = """\b
Examples:
  gpushare board-server --tls-cert tls.crt --tls-key tls.key
  gpushare board-server --tls-cert tls.crt --tls-key tls.key --kubeconfig config --port 9443"""


@settings_command(BoardSettings, name="board-server", epilog=_EXAMPLES)
def command(settings: BoardSettings) -> None:
    """Serve the board in a cluster, to users who sign in with a token.

    Users may sign in who may list nodes and the pods of all namespaces; the API server decides that. The
    board reads the exporters from the addresses of their pods. It changes nothing in the cluster.
    """
    from gpushare.board.daemon import run

    run_daemon("board-server", settings, run, check=_check)


def _check(settings: BoardSettings) -> None:
    check_certificate(settings, "users send tokens, which no one else may see")
