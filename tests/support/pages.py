"""The commands, files and expected outputs of a page of the documentation. Pure.

What belongs here: parsing pages and comparing outputs. What does not: running commands.

A block ``console`` has commands after ``$``, each followed by what it prints. Another block is a file if its
first line is a comment with a path.
"""

import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

ELLIPSIS: Final = "…"
"""Any text within a line; alone on a line, any number of lines."""
_BLOCK: Final = re.compile(
    r"^(?P<indent> *)```(?P<kind>\w+)\n(?P<text>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL
)
_HEADING: Final = re.compile(r"^##+ (.+)$", re.MULTILINE)
_PATH: Final = re.compile(r"# ([\w./-]+\.\w+)\n")
_PROMPT: Final = "$ "


@dataclass(frozen=True)
class Command:
    """A command of a section, and the lines that the page says it prints."""

    section: str
    line: str
    expected: tuple[str, ...] = ()


@dataclass(frozen=True)
class Written:
    """A file that a section lets the reader write; ``path`` is empty for a part of a file."""

    section: str
    path: str
    text: str


def steps(page: str) -> list[Command | Written]:
    """Return the commands and files of a page in their order."""
    headings = [(match.start(), match[1]) for match in _HEADING.finditer(page)]
    found: list[Command | Written] = []
    for block in _BLOCK.finditer(page):
        section = next((title for start, title in reversed(headings) if start < block.start()), "")
        text = textwrap.dedent(block["text"])
        if block["kind"] == "console":
            found.extend(_commands(section, text))
        else:
            path = _PATH.match(text)
            found.append(Written(section, path[1] if path else "", text))
    return found


def _commands(section: str, text: str) -> Iterator[Command]:
    for part in re.split(r"^(?=\$ )", text, flags=re.MULTILINE):
        first, *rest = part.splitlines() or [""]
        if first.startswith(_PROMPT):
            yield Command(section, first.removeprefix(_PROMPT), tuple(rest))
        elif part.strip():
            raise ValueError(f"{section}: output without a command: {first}")


def unmet(expected: Sequence[str], output: str) -> str:
    """Return the first expected line that the output does not have in its place; empty if it has all.

    Runs of spaces are equal. Between two expected lines, and before the first, other lines are allowed only
    where the page has a line ``…``.
    """
    lines = [_plain(line) for line in output.splitlines() if line.strip()]
    gap = False
    for each in map(_plain, expected):
        if not each:
            continue
        if each == ELLIPSIS:
            gap = True
            continue
        pattern = re.compile(".*".join(map(re.escape, each.split(ELLIPSIS))))
        place = next((i for i, line in enumerate(lines) if pattern.fullmatch(line)), None)
        if place is None or (place and not gap):
            return each
        lines, gap = lines[place + 1 :], False
    return "" if gap or not expected or not lines else f"nothing more, but it has: {lines[0]}"


def _plain(line: str) -> str:
    """Without colours and repeated spaces; spaces beside an ellipsis are part of it."""
    spaced = " ".join(re.sub(r"\x1b\[[0-9;]*m", "", line).split())
    return re.sub(rf" ?{ELLIPSIS} ?", ELLIPSIS, spaced)
