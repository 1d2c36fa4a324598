"""Command groups that import a command when it is used."""

from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import NamedTuple

import click
from click.shell_completion import CompletionItem

from gpushare.runtime.kubectl_words import KubectlGroup
from gpushare.runtime.program import CLI_EXTRA, CONTEXT, VERSION, libraries_of


class Lazy(NamedTuple):
    """A command that is not imported yet: target (``module:attribute``), short help, required extra."""

    target: str
    help: str
    extra: str = CLI_EXTRA


class LazyGroup(KubectlGroup):
    """A group that shows the help of its commands without importing them."""

    def __init__(self, name: str, *, lazy: Mapping[str, Lazy], text: str) -> None:
        super().__init__(name, help=text, context_settings=CONTEXT)
        click.version_option(VERSION, message="%(version)s", help="Print the version.")(self)
        self._lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of the table."""
        del ctx
        return list(self._lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports the command. Raises ConfigError if a library is missing."""
        del ctx
        lazy = self._lazy.get(cmd_name)
        if lazy is None:
            return None
        module, _, attribute = lazy.target.partition(":")
        with libraries_of(lazy.extra):
            command: click.Command = getattr(import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Raises UsageError for an unknown command, with the most similar one."""
        similar = get_close_matches(args[0], self._lazy, n=1)
        if similar and args[0] not in self._lazy:
            ctx.fail(f"No such command {args[0]!r}. Did you mean {similar[0]!r}?")
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Commands, from the table, and options."""
        known = ((name, lazy.help) for name, lazy in self._lazy.items() if name.startswith(incomplete))
        commands = [CompletionItem(name, help=text) for name, text in known]
        return commands + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands in ``--help``, from the table."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, lazy.help) for name, lazy in self._lazy.items()])
