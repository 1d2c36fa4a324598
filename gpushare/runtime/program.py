"""Command groups that import a command when it is used, and the exit codes of the programs.

Exit codes: 0 success, 1 failure, 2 wrong usage, 130 interrupted. Data goes to stdout, messages to stderr.
"""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from errno import EDQUOT, EFBIG, ENOSPC
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

import click
from click.shell_completion import CompletionItem

from gpushare import __version__
from gpushare.errors import ConfigError, GpuShareError

CONTEXT: Final[dict[str, Any]] = {"help_option_names": ["-h", "--help"]}
FAILURE: Final = "Error: "
"""Prefix of an error on stderr, as click writes it for wrong usage."""
VERSION: Final = f"gpushare {__version__}"
_EXTRA: Final = "cli"
_FAILED: Final = 1
_INTERRUPTED: Final = 130
_PLUGIN_PREFIX: Final = "kubectl-"
_NO_SPACE: Final = (EDQUOT, EFBIG, ENOSPC)


class Lazy(NamedTuple):
    """A command that is not imported yet: target (``module:attribute``), short help, required extra."""

    target: str
    help: str
    extra: str = _EXTRA


class LazyGroup(click.Group):
    """A group that shows the help of its commands without importing them."""

    def __init__(self, name: str, *, lazy: Mapping[str, Lazy], text: str) -> None:
        super().__init__(name, help=text, context_settings=CONTEXT)
        self.params.append(_version())
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
        with _libraries_of(lazy.extra):
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


def _version() -> click.Option:
    """``--version``."""

    def show(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:  # noqa: FBT001 - click's signature
        if wanted and not ctx.resilient_parsing:
            click.echo(VERSION)
            ctx.exit()

    return click.Option(
        ["--version"],
        is_flag=True,
        expose_value=False,
        is_eager=True,
        callback=show,
        help="Print the version.",
    )


@contextmanager
def _libraries_of(extra: str) -> Iterator[None]:
    """Names the extra of a missing library; a missing module of gpushare is a bug and passes through."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "gpushare":
            raise
        raise ConfigError(
            f"{error.name} is not installed: install the extra {extra}, "
            f"in a checkout with `uv sync --extra {extra}`"
        ) from error


def program_name(argv0: str) -> str | None:
    """The command line of a kubectl plugin (``kubectl gpushare``); None for other programs."""
    name = Path(argv0).name
    return name.replace("-", " ").replace("_", "-") if name.startswith(_PLUGIN_PREFIX) else None


def run(
    command: click.Command, arguments: Sequence[str] | None = None, *, failure: str = FAILURE
) -> NoReturn:
    """Runs the command with the arguments, by default those of the process, and exits.

    ``failure`` is the prefix of an error on stderr.
    """
    try:
        with _libraries_of(_EXTRA):
            result = command.main(arguments, program_name(sys.argv[0]), standalone_mode=False)
    except click.Abort:
        sys.exit(_INTERRUPTED)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except GpuShareError as error:
        click.echo(f"{failure}{error}", err=True)
        sys.exit(_FAILED)
    except OSError as error:
        if error.errno not in _NO_SPACE:
            raise
        click.echo(f"{failure}{error.strerror}", err=True)
        with Path(os.devnull).open("w") as nowhere:  # for what stdout still has: Python flushes it at exit
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        sys.exit(_FAILED)
    sys.exit(result if isinstance(result, int) else 0)
