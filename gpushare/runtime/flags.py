"""How daemons run and exit, and the checks of settings that several of them have.

The settings themselves are declared in ``runtime.settings`` and in the ``settings`` of each daemon.
"""

import asyncio
import sys
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol, TypeVar

import click

from gpushare.errors import ConfigError, GpuShareError, first_of

F = TypeVar("F", bound=Callable[..., Any])

_FAILED: Final = 1
_WRONG_SETTINGS: Final = 2
"""The exit code of click for an invalid flag."""


class _Settings(Protocol):
    @property
    def log_level(self) -> str: ...


class _OfServer(Protocol):
    @property
    def tls_cert(self) -> str: ...
    @property
    def tls_key(self) -> str: ...


class _OfNode(Protocol):
    @property
    def node_name(self) -> str: ...


S = TypeVar("S", bound=_Settings)


def with_options(*options: Callable[[Any], Any]) -> Callable[[F], F]:
    """Return a decorator that adds flags and arguments to a command, in the order of its help."""

    def add(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return add


def check_api_service(settings: _OfServer) -> None:
    """Raise ConfigError without the files of TLS."""
    check_certificate(settings, "the API server speaks TLS only")


def check_certificate(settings: _OfServer, reason: str) -> None:
    """Raise ConfigError without the files of TLS; ``reason`` is why they are needed."""
    if not (settings.tls_cert and settings.tls_key):
        raise ConfigError(f"--tls-cert and --tls-key are needed: {reason}")


def check_node_name(settings: _OfNode) -> None:
    """Raise ConfigError if the name of this node is not set."""
    if not settings.node_name:
        raise ConfigError(
            "NODE_NAME is not set: set it from spec.nodeName in the manifest, or use --node-name"
        )


def run_daemon(
    name: str,
    settings: S,
    run: Callable[[S], Coroutine[Any, Any, None]],
    *,
    check: Callable[[S], None] | None = None,
    loop: Callable[[], asyncio.AbstractEventLoop] | None = None,
) -> None:
    """Check the settings and run a daemon until it stops, on the event loop of ``loop`` (default: asyncio's).

    A GpuShareError is printed as one line and exits with 1, or with 2 for invalid settings.
    """
    from gpushare.runtime.logs import configure  # noqa: PLC0415 - --help does not need structlog

    error: BaseException | None = None
    try:
        if check:
            check(settings)
        configure(settings.log_level)
        with asyncio.Runner(loop_factory=loop) as runner:
            runner.run(run(settings))
    except* GpuShareError as group:
        error = first_of(group)
    # Not in the handler: Python before 3.11.4, which the images have, would wrap the exit in a group.
    if error:
        click.echo(f"gpushare {name}: {error}", err=True)
        sys.exit(_WRONG_SETTINGS if isinstance(error, ConfigError) else _FAILED)
