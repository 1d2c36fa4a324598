"""Common flags of the daemons, and how they run and exit. Flags of one daemon belong to its ``main``."""

import asyncio
import math
import sys
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import click

from gpushare.errors import ConfigError, GpuShareError, first_of
from gpushare.runtime.listener import ANY_ADDRESS

F = TypeVar("F", bound=Callable[..., Any])


class FiniteRange(click.FloatRange):
    """A number in a range. click accepts ``nan`` in all of them, and ``inf`` in most."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Fails for anything else."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{number} is not in the range of finite numbers.", param, ctx)
        return number


PORT: Final = click.IntRange(1, 65535)
LISTENING_PORT: Final = click.IntRange(0, 65535)
"""0 selects a free port."""
SECONDS: Final = FiniteRange(min=0, min_open=True)
NODE_NAME: Final = click.option("--node-name", envvar="NODE_NAME", help="Name of this node, required.")
"""The flag of daemons that run on each node; ``node_name_of`` checks it."""
DRIVER_ROOT: Final = click.option(
    "--driver-root",
    type=click.Path(path_type=Path),
    help="Root folder of the driver, such as /run/nvidia/driver, to find NVML below it.  [default: the "
    "library path of this process]",
)
"""The flag of daemons that use NVML."""
KUBECONFIG: Final = click.option(
    "--kubeconfig",
    envvar="KUBECONFIG",
    help="Path of a kubeconfig; default: the service account.",
)
"""The flag of daemons that use the API server."""
_LEVELS: Final = ("debug", "info", "warn", "error")
_FAILED: Final = 1
_WRONG_SETTINGS: Final = 2
"""The exit code of click for an invalid flag."""


class _Settings(Protocol):
    @property
    def log_level(self) -> str: ...


S = TypeVar("S", bound=_Settings)


def with_options(*options: Callable[[Any], Any]) -> Callable[[F], F]:
    """Return a decorator that adds flags and arguments to a command, in the order of its help."""

    def add(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return add


def daemon_options(ops_port: int, *, log_level: str = "info", uses_api: bool = True) -> Callable[[F], F]:
    """Return a decorator that adds the common flags to a command, with these defaults.

    ``uses_api``: whether the daemon uses the API server and takes a kubeconfig.
    """
    return with_options(
        click.option("--ops-host", default=ANY_ADDRESS, help="Address of the admin server; :: is any."),
        click.option(
            "--ops-port",
            envvar="OPS_PORT",
            type=LISTENING_PORT,
            default=ops_port,
            help="Port of the admin server: /healthz, /readyz, /metrics; 0 selects a free port.",
        ),
        *([KUBECONFIG] if uses_api else []),
        log_level_option(log_level),
    )


def log_level_option(default: str = "info") -> Callable[[F], F]:
    """Return a decorator that adds the flag of the log."""
    return click.option(
        "--log-level",
        envvar="LOG_LEVEL",
        type=click.Choice(_LEVELS, case_sensitive=False),
        default=default,
        help="Minimum level of log messages.",
    )


def api_service_options(port: int) -> Callable[[F], F]:
    """Return a decorator that adds the flags of a server that the API server calls."""
    return https_options(port, "the API server's requests")


def https_options(port: int, purpose: str) -> Callable[[F], F]:
    """Return a decorator that adds the flags of a server with TLS."""
    return with_options(
        click.option("--host", default=ANY_ADDRESS, help=f"Address for {purpose}; :: is any."),
        click.option(
            "--port",
            envvar="PORT",
            type=LISTENING_PORT,
            default=port,
            help=f"Port for {purpose}; 0 selects a free port.",
        ),
        click.option("--tls-cert", help="Certificate of this server; reloaded when it changes."),
        click.option("--tls-key", help="Private key of the certificate."),
    )


def check_api_service(flags: Mapping[str, Any]) -> None:
    """Raise ConfigError without the files of TLS."""
    if not (flags["tls_cert"] and flags["tls_key"]):
        raise ConfigError("--tls-cert and --tls-key are needed: the API server speaks TLS only")


def node_name_of(flags: Mapping[str, Any]) -> str:
    """Return the name of this node. Raises ConfigError if it is not set."""
    name: str | None = flags["node_name"]
    if not name:
        raise ConfigError(
            "NODE_NAME is not set: set it from spec.nodeName in the manifest, or use --node-name"
        )
    return name


def run_daemon(
    name: str,
    settings_of: Callable[[], S],
    run: Callable[[S], Coroutine[Any, Any, None]],
    *,
    loop: Callable[[], asyncio.AbstractEventLoop] | None = None,
) -> None:
    """Run a daemon until it stops, on the event loop of ``loop`` (default: asyncio's).

    A GpuShareError is printed as one line and exits with 1, or with 2 for invalid settings.
    """
    from gpushare.runtime.logs import configure  # noqa: PLC0415 - --help does not need structlog

    error: BaseException | None = None
    try:
        settings = settings_of()
        configure(settings.log_level)
        with asyncio.Runner(loop_factory=loop) as runner:
            runner.run(run(settings))
    except* GpuShareError as group:
        error = first_of(group)
    # Not in the handler: Python before 3.11.4, which the images have, would wrap the exit in a group.
    if error:
        click.echo(f"gpushare {name}: {error}", err=True)
        sys.exit(_WRONG_SETTINGS if isinstance(error, ConfigError) else _FAILED)
