"""``gpushare mps``: command line of the MPS daemon."""

from typing import Final

from gpushare.mpsd.settings import MpsSettings
from gpushare.runtime.flags import run_daemon
from gpushare.runtime.settings import settings_command

_EXAMPLES: Final = """\b
Examples:
  gpushare mps
  gpushare mps --state /run/gpushare-mps --interval-seconds 1"""


@settings_command(MpsSettings, name="mps", epilog=_EXAMPLES)
def command(settings: MpsSettings) -> None:
    """Run an MPS control daemon for each GPU of this node.

    Stopping it terminates all CUDA processes on the node.
    """
    from gpushare.mpsd.daemon import run

    run_daemon("mps", settings, run)
