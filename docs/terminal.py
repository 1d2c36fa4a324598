"""The recorded terminal of the README: ``demo.txt``, which a run of the demo wrote, drawn as a picture.

``make pictures PART=demo`` writes the text (``tools.recording``); each build of the documentation draws it.
"""

import re
from io import StringIO
from pathlib import Path
from typing import Final

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.terminal_theme import DIMMED_MONOKAI
from rich.text import Text

RECORDING: Final = Path(__file__).parent / "demo.txt"
PICTURE: Final = Path(__file__).parent / "demo.svg"
_WIDTH: Final = 142
"""Columns; a longer line is cut, as in a terminal that does not wrap."""
_FONTS: Final = re.compile(r"@font-face \{\{.*?\}\}\s*", re.DOTALL)
"""They would be loaded from another site; the font of the reader does."""


def picture(recording: str) -> str:
    """Return the SVG of a terminal with the text; lines that begin with ``$`` are commands."""
    console = Console(record=True, width=_WIDTH, file=StringIO(), force_terminal=True)
    for line in recording.splitlines():
        style = "bold green" if line.startswith("$ ") else "dim" if line.startswith("# ") else ""
        console.print(Text(line, style), no_wrap=True, overflow="ellipsis", crop=True)
    return console.export_svg(
        title="make demo",
        theme=DIMMED_MONOKAI,
        code_format=_FONTS.sub("", CONSOLE_SVG_FORMAT).replace("Fira Code", "ui-monospace"),
        unique_id="gpushare",
    )


def main() -> None:
    """Draw the picture."""
    PICTURE.write_text(picture(RECORDING.read_text()))


if __name__ == "__main__":
    main()
