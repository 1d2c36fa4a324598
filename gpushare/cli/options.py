"""Flags that several commands share, with the names that kubectl uses."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import click

from gpushare.cli import completion

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS: Final = (
    click.argument("node", required=False, metavar="[NODE]", shell_complete=completion.nodes),
    click.option(
        "-o", "--output", type=click.Choice(["wide", "json", "yaml", "name"]), help="Output format."
    ),
    click.option("-l", "--selector", default="", metavar="LABELS", help="Only nodes with these labels."),
    click.option("-w", "--watch", is_flag=True, help="Show again after every change, until interrupted."),
)
_CONNECTION: Final = (
    click.option(
        "--kubeconfig",
        type=click.Path(),
        metavar="FILE",
        help="Kubeconfig to use (default: KUBECONFIG, ~/.kube/config).",
    ),
    click.option("--context", metavar="NAME", help="Context of the kubeconfig to use."),
)


@dataclass(frozen=True, slots=True)
class Flags:
    """The values of the common flags."""

    node: str | None = None
    output: str | None = None
    selector: str = ""
    watch: bool = False
    kubeconfig: str | None = None
    context: str | None = None


def display_options(function: F) -> F:
    """Adds the common flags to a command, which receives them as keywords for ``Flags``."""
    return _with(function, (*_OPTIONS, *_CONNECTION))


def connection_options(function: F) -> F:
    """Adds the flags that select the cluster."""
    return _with(function, _CONNECTION)


def _with(function: F, options: Sequence[Callable[[F], F]]) -> F:
    for option in reversed(options):
        function = option(function)
    return function
