"""``make pictures PART=board``: the pictures of the board in the documentation."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.process.cli.board.fixtures import Earlier, NamespacePage, Page, namespace_page, page_of, served
from tests.support.builders.boards import example, fleet
from tests.support.chromium import chromium

FOLDER: Final = Path(__file__).parents[4] / "docs/how-to/board"
NODES: Final = 200


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture of a page, in a window of a size; ``view`` is the fragment of its URL.

    ``at`` is the element that is shown, if not the top.
    """

    name: str
    page: Page | NamespacePage
    width: int = 1360
    height: int = 900
    scheme: str = "light"
    view: str = ""
    at: str = ""


def pictures() -> list[Picture]:
    """All pictures of the documentation."""
    cluster = page_of(example())
    return [
        Picture("light", cluster, height=1060),
        Picture("dark", cluster, height=1060, scheme="dark"),
        Picture("phone", cluster, 390, 844),
        Picture("node", cluster, height=560, view="#open=gpu-a10-1"),
        Picture("fleet", page_of(fleet(NODES)), 1440, 940),
        Picture("namespaces", cluster, height=330, at="tenants-section"),
        Picture("namespace", namespace_page(), height=620),
    ]


async def main() -> None:
    """Write the pictures."""
    FOLDER.mkdir(exist_ok=True)
    async with chromium() as tab:
        for each in pictures():
            past = Earlier().answer if isinstance(each.page, Page) else None
            async with served(each.page, past) as url:
                await tab.emulate(each.width, each.height, each.scheme)
                await tab.open(url + each.view)
                await tab.wait("document.readyState === 'complete' && document.documentElement.dataset.tag")
                if past:
                    await tab.wait("document.querySelectorAll('#tenants tbody').length")
                if each.at:
                    script = f"document.getElementById('{each.at}').scrollIntoView({{block: 'end'}})"
                    await tab.evaluate(script)
                (FOLDER / f"{each.name}.png").write_bytes(await tab.picture())
                await tab.open("about:blank")


if __name__ == "__main__":
    asyncio.run(main())
