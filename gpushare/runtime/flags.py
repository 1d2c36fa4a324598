"""Common command-line flags of all daemons, and their exit codes.

Flags of a single daemon do not belong here.
"""

import asyncio
import sys
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol, TypeVar

import click

from gpushare.errors import ConfigError, GpuShareError, first_of

F = TypeVar("F", bound=Callable[..., Any])

PORT: Final = click.IntRange(1, 65535)
LISTENING_PORT: Final = click.IntRange(0, 65535)
"""0 selects a free port."""
SECONDS: Final = click.FloatRange(min=0, min_open=True)
_LEVELS: Final = ("debug", "info", "warn", "error")
_FAILED: Final = 1
_WRONG_SETTINGS: Final = 2
"""The exit code of click for invalid flags."""


class _Settings(Protocol):
    @property
    def log_level(self) -> str: ...


S = TypeVar("S", bound=_Settings)


def daemon_options(ops_port: int, *, log_level: str = "info", asks_api: bool = True) -> Callable[[F], F]:
    """Add the common flags to a command, with its defaults.

    ``asks_api``: whether it uses the API server and so may need a kubeconfig.
    """
    access = click.option(
        "--kubeconfig", envvar="KUBECONFIG", help="A kubeconfig; where it is absent, the service account."
    )
    options = (
        click.option("--ops-host", default="0.0.0.0", help="Address for health and metrics."),  # noqa: S104 - probes and scrapes come from outside
        click.option(
            "--ops-port",
            envvar="OPS_PORT",
            type=LISTENING_PORT,
            default=ops_port,
            help="Port for /healthz, /readyz, /metrics; 0 takes a free one.",
        ),
        *([access] if asks_api else []),
        click.option(
            "--log-level",
            envvar="LOG_LEVEL",
            type=click.Choice(_LEVELS, case_sensitive=False),
            default=log_level,
            help="How much to log.",
        ),
    )

    def give(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return give


def run_daemon(
    name: str,
    settings_of: Callable[[], S],
    run: Callable[[S], Coroutine[Any, Any, None]],
    *,
    loop: Callable[[], asyncio.AbstractEventLoop] | None = None,
) -> None:
    """Run a daemon, on asyncio's event loop unless ``loop`` creates another.

    Errors are printed as one line; the exit code is 2 for invalid settings, else 1.
    """
    from gpushare.runtime.logs import configure  # noqa: PLC0415 - --help does without structlog

    try:
        settings = settings_of()
        configure(settings.log_level)
        with asyncio.Runner(loop_factory=loop) as runner:
            runner.run(run(settings))
    except* GpuShareError as group:
        error = first_of(group)
        click.echo(f"gpushare {name}: {error}", err=True)
        sys.exit(_WRONG_SETTINGS if isinstance(error, ConfigError) else _FAILED)
