"""Settings as a service reads them from its command line."""

from typing import TypeVar

import click

from gpushare.runtime.settings import options_of

S = TypeVar("S")


def parsed(command: click.Command, kind: type[S], *flags: str) -> S:
    """The settings of these flags and of the environment. Raises click.UsageError."""
    with command.make_context(command.name, list(flags)) as context:
        return kind(**{name: context.params[name] for name in options_of(kind)})
