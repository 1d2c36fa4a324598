"""Aligns columns like Go's ``text/tabwriter`` (minwidth 0, tabwidth 0, padding 2, spaces).

A cell belongs to a column only if a tab follows it, and a column is a block of consecutive lines with such a
cell. Lines that end in a tab therefore have trailing spaces.
"""

from collections.abc import Iterator
from itertools import groupby
from typing import Final

PADDING: Final = 2


def align(text: str) -> str:
    """Replaces every tab by the spaces that fill its column."""
    lines = [line.split("\t") for line in text.split("\n")]
    for column in range(max(len(cells) for cells in lines) - 1):
        for block in _blocks(lines, column):
            _pad(block, column)
    return "\n".join("".join(cells) for cells in lines)


def _blocks(lines: list[list[str]], column: int) -> Iterator[list[list[str]]]:
    """Consecutive lines with a cell in the column; no tab follows the last cell of a line."""
    for has_cell, block in groupby(lines, key=lambda cells: column < len(cells) - 1):
        if has_cell:
            yield list(block)


def _pad(block: list[list[str]], column: int) -> None:
    width = max(len(cells[column]) for cells in block) + PADDING
    for cells in block:
        cells[column] = cells[column].ljust(width)
