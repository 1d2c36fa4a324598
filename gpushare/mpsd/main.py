"""``gpushare mps``: command line of the MPS daemon."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click

from gpushare.contract import MPS_PORT, MPS_STATE, SHM
from gpushare.mpsd.settings import MpsSettings
from gpushare.runtime.flags import SECONDS, daemon_options, run_daemon

_FOLDER: Final = click.Path(file_okay=False, path_type=Path)
_EXAMPLES: Final = """\b
Examples:
  gpushare mps
  gpushare mps --state /run/gpushare-mps --interval-seconds 1"""


@click.command(
    "mps", context_settings={"show_default": True, "help_option_names": ["-h", "--help"]}, epilog=_EXAMPLES
)
@click.option(
    "--state",
    type=_FOLDER,
    default=Path(MPS_STATE),
    help="Directory for the pipes and logs of the control daemons.",
)
@click.option(
    "--shm",
    type=_FOLDER,
    default=Path(SHM),
    help="Directory of the shared memory of control daemons and programs.",
)
@click.option(
    "--interval-seconds",
    type=SECONDS,
    default=5.0,
    help="Seconds between health checks.",
)
@daemon_options(MPS_PORT, uses_api=False)
def command(**flags: Any) -> None:
    """Run an MPS control daemon for each GPU of this node.

    Stopping it terminates all CUDA processes on the node.
    """
    from gpushare.mpsd.daemon import run

    run_daemon("mps", lambda: settings_of(flags), run)


def settings_of(flags: Mapping[str, Any]) -> MpsSettings:
    """Settings from parsed flags."""
    return MpsSettings(
        state=flags["state"],
        shm=flags["shm"],
        interval_s=flags["interval_seconds"],
        ops_host=flags["ops_host"],
        ops_port=flags["ops_port"],
        log_level=flags["log_level"],
    )
