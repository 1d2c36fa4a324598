"""The manual pages of all commands, from the tree of click, for the wheel and the archives of the plugins.

A command of ``kubectl gpushare`` is a command of ``gpushare`` too: that page, and the pages of programs with
other names, only refer to the first one. They have neither date nor version, so that they change only with
their command.
"""

import inspect
import re
import textwrap
from collections.abc import Iterator
from typing import Final

import click

from gpushare.__main__ import command as program
from gpushare.cli.main import TOOLS, plugin

FOLDER: Final = "share/man/man1"
"""Where an installation has the pages."""
PROGRAM, PLUGIN = "gpushare", "kubectl gpushare"
OTHER_NAMES: Final = {
    "kubectl-inspect-gpushare": f"{PLUGIN} inspect",
    "kubectl-inspect-gpushare-v2": f"{PLUGIN} inspect",
    "kubectl-inspect-cgpu": f"{PLUGIN} inspect",
    "gpushare-device-plugin-v2": f"{PROGRAM} device-plugin",
}
"""Programs that run one command, and that command."""
_UNWRAPPED: Final = "\b"
"""A paragraph that click does not wrap begins with it."""
_WHOLE: Final = 1000
"""Characters of a short help that is not cut."""


def pages() -> dict[str, str]:
    """Return the text of every page by its file name."""
    shown = {line: page(line, found) for line, found in tree(PLUGIN, plugin)}
    for line, found in tree(PROGRAM, program):
        word = line.split()[1:2]
        shown[line] = reference(f"kubectl {line}") if word and word[0] in TOOLS else page(line, found)
    others = {name: reference(line) for name, line in OTHER_NAMES.items()}
    return {file_name(line): text for line, text in (shown | others).items()}


def tree(line: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    """Yield the command line of a command and of each command below it, with the command."""
    yield line, command
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=line)
        for name in command.list_commands(context):
            if (below := command.get_command(context, name)) and not below.hidden:
                yield from tree(f"{line} {name}", below)


def file_name(line: str) -> str:
    """Return the name of the page of a command line: ``man kubectl-gpushare-top`` shows it."""
    return f"{line.replace(' ', '-')}.1"


def reference(line: str) -> str:
    """Return a page that shows that of another command line."""
    return f".so man1/{file_name(line)}\n"


def page(line: str, command: click.Command) -> str:
    """Return the page of a command in roff."""
    context = click.Context(command, info_name=line, show_default=True)
    name = line.replace(" ", "-")
    summary, *paragraphs = _paragraphs(command.help)
    pieces = " ".join(_escaped(piece) for piece in command.collect_usage_pieces(context))
    lines = [
        f'.TH "{_escaped(name.upper())}" "1" "" "gpushare" "gpushare manual"',
        ".SH NAME",
        f"{_escaped(name)} \\- {_text(summary.rstrip('.'))}",
        ".SH SYNOPSIS",
        f".B {_escaped(line)}",
        pieces,
    ]
    lines += _section("DESCRIPTION", _blocks([summary, *paragraphs]))
    lines += _section("OPTIONS", _options(context, command))
    if isinstance(command, click.Group):
        lines += _section("COMMANDS", _commands(line, command))
    lines += _section("EXAMPLES", _blocks(_paragraphs(command.epilog)))
    return "\n".join(lines) + "\n"


def _paragraphs(text: str | None) -> list[str]:
    return re.split(r"\n\s*\n", inspect.cleandoc(text or "").strip()) if text else []


def _section(title: str, lines: Iterator[str]) -> list[str]:
    found = list(lines)
    return [f".SH {title}", *found] if found else []


def _blocks(paragraphs: list[str]) -> Iterator[str]:
    """Yield paragraphs; those that click does not wrap keep their lines."""
    for each in paragraphs:
        yield ".PP"
        if each.startswith(_UNWRAPPED):
            kept = each.removeprefix(_UNWRAPPED).strip().removeprefix("Examples:\n")
            yield from [".nf", *map(_text, textwrap.dedent(kept).splitlines()), ".fi"]
        else:
            yield _text(" ".join(each.split()))


def _options(context: click.Context, command: click.Command) -> Iterator[str]:
    for option in command.params:
        if record := option.get_help_record(context):
            yield from (".TP", f"\\fB{_escaped(record[0])}\\fP", _text(record[1] or "\\&"))


def _commands(line: str, group: click.Group) -> Iterator[str]:
    for each, command in tree(line, group):
        if each.removeprefix(line).count(" ") == 1:
            name = _escaped(each.replace(" ", "-"))
            yield from (".TP", f"\\fB{name}\\fP(1)", _text(command.get_short_help_str(_WHOLE)))


def _text(text: str) -> str:
    """Return a line of text, which is no request although it may begin as one."""
    escaped = _escaped(text)
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped


def _escaped(text: str) -> str:
    return text.replace("\\", "\\e").replace("-", "\\-")
