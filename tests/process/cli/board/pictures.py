"""``make pictures PART=board``: the pictures of the board in the documentation, of the example cluster."""

import asyncio
from pathlib import Path
from typing import Final

from tests.process.cli.board.fixtures import page_of, served
from tests.support.builders.boards import example
from tests.support.chromium import chromium

FOLDER: Final = Path(__file__).parents[4] / "docs/how-to/board"
WIDTH, HEIGHT = 1360, 1120


async def main() -> None:
    """Write one picture for each colour scheme."""
    FOLDER.mkdir(exist_ok=True)
    async with served(page_of(example())) as url, chromium() as tab:
        for number, scheme in enumerate(("light", "dark")):
            await tab.emulate(WIDTH, HEIGHT, scheme)
            await tab.open(url if number == 0 else url.partition("?")[0])
            await tab.wait("document.querySelectorAll('#nodes tbody').length > 1")
            (FOLDER / f"{scheme}.png").write_bytes(await tab.picture())


if __name__ == "__main__":
    asyncio.run(main())
