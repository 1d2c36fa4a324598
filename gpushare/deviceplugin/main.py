"""``gpushare device-plugin``: command line of the node agent."""

import os
import socket
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final

import click

from gpushare.deviceplugin.settings import AgentSettings, check_values
from gpushare.runtime.flags import check_node_name, run_daemon
from gpushare.runtime.settings import settings_command

_EXAMPLES: Final = """\b
Examples:
  gpushare device-plugin --node-name gpu-1 --kubeconfig /etc/kubernetes/kubelet.conf
  gpushare device-plugin --node-name gpu-1 --memory-unit MiB --device-list-strategy cdi"""


def _ignored(name: str, meaning: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A boolean flag of the Aliyun plugin that has no effect."""
    return click.option(
        f"--{name}", f"-{name}", type=bool, is_flag=False, flag_value=True, default=False, hidden=True,
        expose_value=False, metavar="[BOOL]", help=f"Accepted for compatibility{meaning}.",
    )  # fmt: skip


@settings_command(AgentSettings, epilog=_EXAMPLES)
@_ignored("mps", "; the node's label decides")
@_ignored("logtostderr", "")
def command(settings: AgentSettings) -> None:
    """Allocate shares of this node's GPUs to containers, as a kubelet device plugin."""
    from gpushare.deviceplugin.daemon import run

    identity = os.environ.get("POD_NAME") or socket.gethostname()
    logged = replace(settings, log_level=settings.level)
    run_daemon("device-plugin", logged, partial(run, identity=identity), check=check)


def original() -> None:
    """Entry point ``gpushare-device-plugin-v2``, the name of the Aliyun plugin."""
    command.main(prog_name="gpushare-device-plugin-v2")


def check(settings: AgentSettings) -> None:
    """Raises ConfigError for settings that cannot work."""
    check_node_name(settings)
    check_values(settings)
