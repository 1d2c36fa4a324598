"""Command lines as users of kubectl write them: flags before the command, ``help COMMAND``, plurals."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import click

_WITH_VALUE: Final = frozenset({"-n", "--namespace", "--context", "--kubeconfig", "--as", "--as-group"})
_ALONE: Final = frozenset({"-A", "--all-namespaces"})


def rearranged(words: Sequence[str]) -> list[str]:
    """The words with the command first; the flags of kubectl before it go before its own flags.

    ``help COMMAND`` is ``COMMAND --help``.
    """
    flags: list[str] = []
    rest = list(words)
    while rest and (taken := _length(rest)):
        flags += rest[:taken]
        rest = rest[taken:]
    if rest[:1] == ["help"]:
        return [*rest[1:], "--help"]
    own = next((place for place, word in enumerate(rest) if word.startswith("-")), len(rest))
    return [*rest[:own], *flags, *rest[own:]]


def _length(words: Sequence[str]) -> int:
    """How many words the first flag of kubectl has; 0 if another word is first."""
    first = words[0]
    if first in _ALONE:
        return 1
    if first in _WITH_VALUE:
        return 2
    name, equals, _ = first.partition("=")
    is_short = first.startswith("-n") and not equals
    return 1 if (equals and name in _WITH_VALUE) or is_short else 0


class KubectlGroup(click.Group):
    """A group of commands; ``aliases`` are other names of some."""

    def __init__(self, *arguments: Any, aliases: Mapping[str, str] | None = None, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._aliases = aliases or {}

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Takes the words in any order that kubectl takes."""
        return super().parse_args(ctx, rearranged(args))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Also by another name."""
        return super().get_command(ctx, self._aliases.get(cmd_name, cmd_name))
