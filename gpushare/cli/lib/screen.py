"""Output of a command: text and documents on stdout, messages on stderr."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import click

from gpushare.cli.lib.text_table import TextTable, text_of

_CLEAR: Final = "\x1b[H\x1b[2J\x1b[3J"


class Screen:
    """Redrawn on a terminal (``redraw``), else appended; the same text is not shown twice in a row."""

    def __init__(self, *, redraw: bool = False) -> None:
        self._redraw = redraw
        self._shown: str | None = None
        self._reported: set[str] = set()

    def show(self, text: str) -> None:
        """Shows a complete text."""
        if text != self._shown:
            click.echo((_CLEAR if self._redraw else "") + text, nl=False, color=self._redraw)
        self._shown = text

    def show_table(self, table: TextTable, namespace: str | None = None) -> None:
        """Shows a table; an empty one as kubectl does, with one line on stderr."""
        if table.rows:
            self.show(text_of(table))
        else:
            self._report_once(f"No resources found{f' in {namespace} namespace' if namespace else ''}.")

    def note_namespace(self, rows: Sequence[object], namespace: str | None) -> None:
        """Says that only one namespace was searched, if nothing was found there."""
        if namespace and not rows:
            self.warn([f"only namespace {namespace} was searched; -A selects all"])

    def warn(self, problems: Iterable[str]) -> None:
        """Reports problems of single objects, once each."""
        for problem in problems:
            self._report_once(f"warning: {problem}")

    def _report_once(self, message: str) -> None:
        if message not in self._reported:
            self.report(message)
        self._reported.add(message)

    def report(self, message: str) -> None:
        """Writes a message to stderr."""
        click.echo(message, err=True)


def watching_screen(*, watch: bool) -> Screen:
    """A screen that is redrawn if it is a terminal, and the command watches."""
    return Screen(redraw=watch and sys.stdout.isatty())


def serialized(content: Mapping[str, Any], output: str) -> str:
    """A document as ``json`` or ``yaml``, with a line end."""
    text = json.dumps(content, indent=2) + "\n"
    if output == "json":
        return text
    from gpushare.model.yaml_text import dump

    return f"---\n{dump(json.loads(text))}"
