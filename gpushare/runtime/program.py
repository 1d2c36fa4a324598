"""What ends a program: its exit codes and its errors on stderr.

Exit codes: 0 success, 1 failure, 2 wrong usage, 130 interrupted. Data goes to stdout, messages to stderr.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from errno import EDQUOT, EFBIG, ENOSPC
from pathlib import Path
from typing import Any, Final, NoReturn

import click

from gpushare import __version__
from gpushare.errors import ConfigError, GpuShareError

CONTEXT: Final[dict[str, Any]] = {"help_option_names": ["-h", "--help"]}
FAILURE: Final = "Error: "
"""Prefix of an error on stderr, as click writes it for wrong usage."""
VERSION: Final = f"gpushare {__version__}"
CLI_EXTRA: Final = "cli"
"""The extra with the libraries of the tools."""
_FAILED: Final = 1
_INTERRUPTED: Final = 130
_PLUGIN_PREFIX: Final = "kubectl-"
_NO_SPACE: Final = (EDQUOT, EFBIG, ENOSPC)


@contextmanager
def libraries_of(extra: str) -> Iterator[None]:
    """Raises ConfigError with the extra of a missing library; a missing module of gpushare passes through."""
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
        with libraries_of(CLI_EXTRA):
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
