"""Columns as Go's ``text/tabwriter`` sets them (minwidth 0, tabwidth 0, padding 2, blanks).

A cell belongs to a column only if a tab ends it, and a column is a block of lines without a gap
that have such a cell: hence the trailing blanks of lines that end in a tab.
"""

from collections.abc import Iterator
from itertools import groupby
from typing import Final

PADDING: Final = 2


def align(text: str) -> str:
    """The text with every tab replaced by the blanks that fill its column."""
    lines = [line.split("\t") for line in text.split("\n")]
    for column in range(max(len(cells) for cells in lines) - 1):
        for block in _blocks(lines, column):
            _pad(block, column)
    return "\n".join("".join(cells) for cells in lines)


def _blocks(lines: list[list[str]], column: int) -> Iterator[list[list[str]]]:
    """Neighbouring lines with a cell in the column; the last cell of a line is not ended by a tab."""
    for has_cell, block in groupby(lines, key=lambda cells: column < len(cells) - 1):
        if has_cell:
            yield list(block)


def _pad(block: list[list[str]], column: int) -> None:
    width = max(len(cells[column]) for cells in block) + PADDING
    for cells in block:
        cells[column] = cells[column].ljust(width)
