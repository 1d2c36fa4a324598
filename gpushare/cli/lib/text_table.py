"""Tables of text, in columns like those of kubectl."""

from dataclasses import dataclass
from typing import Final

from gpushare.cli.lib.tabwriter import align

ABSENT: Final = "-"
"""The cell of an unknown value."""
_MIB: Final = 2**20


@dataclass(frozen=True, slots=True)
class TextTable:
    """Headers, and sorted rows with one cell per header."""

    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def mib(value: float | None) -> str:
    """A cell with an amount of bytes."""
    return ABSENT if value is None else f"{value / _MIB:.0f} MiB"


def text_of(table: TextTable) -> str:
    """Columns without borders."""
    lines = ["\t".join(cells) for cells in (table.headers, *table.rows)]
    return align("\n".join(lines)) + "\n"
