"""``python -m components.ready``: ``kubectl gpushare doctor`` in the cluster of a stack.

The engine is asked for the configuration, because only it can decrypt a kubeconfig.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import click

from components.kubeconfig import as_files
from gpushare.errors import ConfigError
from gpushare.runtime.program import run

_FAILURE: Final = "ready: "
_DOCTOR: Final = (str(Path(sys.executable).parent / "kubectl-gpushare"), "doctor")


class Access(NamedTuple):
    """The kubeconfig of a stack, as it is configured, and its context; both may be empty."""

    kubeconfig: str
    context: str


@click.command(context_settings={"help_option_names": ["-h", "--help"], "ignore_unknown_options": True})
@click.option("--stack", required=True, metavar="NAME", help="The stack whose cluster is checked.")
@click.argument("flags", nargs=-1, type=click.UNPROCESSED, metavar="[FLAGS OF DOCTOR]")
def command(stack: str, flags: Sequence[str]) -> None:
    """Check the installation in the cluster of a stack, with its kubeconfig and context."""
    access = access_of(_output_of("pulumi", "config", "--json", "--show-secrets", "--stack", stack))
    context = ["--context", access.context] if access.context else []
    with as_files(access.kubeconfig) as paths:
        env = {**os.environ, **({"KUBECONFIG": paths} if paths else {})}
        done = subprocess.run([*_DOCTOR, *context, *flags], env=env, check=False)  # noqa: S603 - our program
    raise SystemExit(done.returncode)


def access_of(config: str) -> Access:
    """The access in what ``pulumi config --json`` prints."""
    values = {key.rpartition(":")[2]: each.get("value") or "" for key, each in json.loads(config).items()}
    return Access(values.get("kubeconfig", ""), values.get("context", ""))


def _output_of(*argv: str) -> str:
    """What a program prints. If it fails, so does this one; the reason is shown already.

    Raises ConfigError if there is no such program.
    """
    try:
        done = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=False)  # noqa: S603 - the CLI
    except FileNotFoundError as error:
        raise ConfigError(f"{argv[0]} is not on the PATH: install the CLI of Pulumi") from error
    if done.returncode:
        raise SystemExit(done.returncode)
    return done.stdout


if __name__ == "__main__":
    run(command, failure=_FAILURE)
