"""Tables of text, and their formats: in colours for a terminal, or in plain columns like kubectl."""

from dataclasses import dataclass
from typing import Final

from gpushare.cli.lib.tabwriter import align

ABSENT: Final = "-"
"""The cell of an unknown value."""
_MIB: Final = 2**20
_EMPTY: Final = "Nothing to show.\n"


@dataclass(frozen=True, slots=True)
class TextTable:
    """Headers, and sorted rows with one cell per header."""

    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def mib(value: float | None) -> str:
    """A cell with an amount of bytes."""
    return ABSENT if value is None else f"{value / _MIB:.0f} MiB"


def plain(table: TextTable) -> str:
    """Columns without borders."""
    if not table.rows:
        return _EMPTY
    lines = ["\t".join(cells) for cells in (table.headers, *table.rows)]
    return align("\n".join(lines)) + "\n"


def coloured(table: TextTable) -> str:
    """In the width of the terminal; cells are text, not markup."""
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    if not table.rows:
        return _EMPTY
    console = Console(force_terminal=True)
    drawn = RichTable(box=None, header_style="bold", pad_edge=False)
    for header in table.headers:
        drawn.add_column(header, overflow="fold")
    for row in table.rows:
        drawn.add_row(*map(Text, row))
    with console.capture() as captured:
        console.print(drawn)
    return captured.get()
