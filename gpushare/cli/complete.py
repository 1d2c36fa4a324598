"""The programs ``kubectl_complete-*``, with which kubectl completes the words of its plugins.

kubectl runs them with the words so far and expects the output of Cobra's ``__complete``: one candidate per
line, its description after a tab, and last a colon with a directive that controls completion of file names
(kubernetes, staging/src/k8s.io/kubectl/pkg/cmd/plugin_completion.go).
"""

import sys
from collections.abc import Sequence
from typing import Final

import click
from click.shell_completion import CompletionItem, ShellComplete

from gpushare.cli.main import plugin

_FILES, _NO_FILES = 0, 4
"""Cobra's ShellCompDirectiveDefault and ShellCompDirectiveNoFileComp."""
_PLAIN: Final = "plain"


def complete(command: click.Command, words: Sequence[str]) -> str:
    """The candidates for the last word, which may be empty, in Cobra's format."""
    *before, last = words or ("",)
    found = ShellComplete(command, {}, command.name or "", "").get_completions(before, last)
    lines = [_line(item) for item in found if item.type == _PLAIN]
    files = any(item.type != _PLAIN for item in found)
    return "\n".join([*lines, f":{_FILES if files else _NO_FILES}"])


def _line(item: CompletionItem) -> str:
    return f"{item.value}\t{item.help}" if item.help else str(item.value)


def plugin_main() -> None:
    """``kubectl gpushare …``."""
    click.echo(complete(plugin, sys.argv[1:]))


def inspect_main() -> None:
    """``kubectl inspect gpushare …`` and ``kubectl inspect cgpu …``."""
    from gpushare.cli.inspect.command import inspect

    click.echo(complete(inspect, sys.argv[1:]))
