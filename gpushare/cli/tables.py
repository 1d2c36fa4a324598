"""How a table looks: in colours on a terminal, as kubectl's plain columns elsewhere, or as JSON."""

import json
from typing import Final

from gpushare.cli.layouts.tabwriter import align
from gpushare.cli.usage_tables import Table

_EMPTY: Final = "Nothing to show.\n"


def plain(table: Table) -> str:
    """Columns without borders, for people and for other programs."""
    if not table.rows:
        return _EMPTY
    lines = ["\t".join(cells) for cells in (table.headers, *table.rows)]
    return align("\n".join(lines)) + "\n"


def as_json(table: Table) -> str:
    """A list of rows by header, in small letters."""
    keys = [header.lower() for header in table.headers]
    return json.dumps([dict(zip(keys, row, strict=True)) for row in table.rows], indent=2) + "\n"


def coloured(table: Table) -> str:
    """For a terminal, as wide as it is."""
    from rich.console import Console  # noqa: PLC0415 - what is piped does without
    from rich.table import Table as RichTable  # noqa: PLC0415 - as said

    if not table.rows:
        return _EMPTY
    console = Console(force_terminal=True)
    drawn = RichTable(box=None, header_style="bold", pad_edge=False)
    for header in table.headers:
        drawn.add_column(header, overflow="fold")
    for row in table.rows:
        drawn.add_row(*row)
    with console.capture() as captured:
        console.print(drawn)
    return captured.get()
