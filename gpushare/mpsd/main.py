"""``gpushare mps``: keeps the MPS control daemons of a node up."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click

from gpushare.contract import MPS_PORT, MPS_STATE, SHM
from gpushare.mpsd.settings import MpsSettings
from gpushare.runtime.flags import SECONDS, daemon_options, run_daemon

_PATH: Final = click.Path(path_type=Path)


@click.command("mps", context_settings={"show_default": True, "help_option_names": ["-h", "--help"]})
@click.option(
    "--state", type=_PATH, default=Path(MPS_STATE), help="Where the control daemons have pipes and logs."
)
@click.option("--shm", type=_PATH, default=Path(SHM), help="The memory that they share with programs.")
@click.option(
    "--interval-seconds",
    type=SECONDS,
    default=5.0,
    help="How often all is looked at.",
)
@daemon_options(MPS_PORT, asks_api=False)
def command(**flags: Any) -> None:
    """Keep an MPS control daemon up for each card of this node. Its end is that of all CUDA programs."""
    from gpushare.mpsd.daemon import run  # noqa: PLC0415 - --help does without structlog

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
