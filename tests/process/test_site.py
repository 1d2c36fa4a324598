"""The built documentation in a real browser: tables fit, copied blocks run, pages declare their language."""

import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.support.chromium import Tab, chromium

pytestmark = [
    pytest.mark.needs("chromium"),
    pytest.mark.asyncio(loop_scope="module"),
]

DOCS = Path(__file__).parents[2] / "docs"
REFERENCE = sorted(f"reference/{page.stem}" for page in (DOCS / "reference").glob("*.md"))
DOORS = ("how-to/share", "how-to/quick-start")
WIDTHS = (390, 1280, 1440)
TWO_SCREENS, FOOTER = 2000, 200
"""Pixels."""
OUTSIDE = """(() => {
  const content = document.querySelector('.content').getBoundingClientRect();
  return [...document.querySelectorAll('table.reference td, table.reference th')]
    .filter((cell) => cell.getBoundingClientRect().right > content.right + 1)
    .map((cell) => cell.innerText.slice(0, 40));
})()"""
COPY = """(() => {
  const copied = [];
  document.execCommand = () => (copied.push(document.activeElement.value), true);
  const blocks = [...document.querySelectorAll('.highlight-console')];
  blocks.forEach((block) => block.querySelector('button.copybtn').click());
  return copied;
})()"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    built = folder / "html"
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "-d", str(folder / "trees"), str(DOCS), str(built)]
    subprocess.run(command, check=True)  # noqa: S603 - our own words
    return built


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tab() -> AsyncIterator[Tab]:
    async with chromium() as found:
        yield found


async def show(tab: Tab, site: Path, page: str, width: int = 1280) -> None:
    await tab.emulate(width, 1000)
    url = (site / f"{page}.html").as_uri()
    await tab.open(url)
    await tab.wait(f"document.readyState === 'complete' && location.href === {url!r}")


@pytest.mark.parametrize("page", REFERENCE)
async def test_no_column_of_the_reference_is_outside_of_the_page(tab: Tab, site: Path, page: str) -> None:
    for width in WIDTHS:
        await show(tab, site, page, width)
        assert await tab.evaluate(OUTSIDE) == [], width


@pytest.mark.parametrize("page", ["index", *DOORS, "concepts/comparison"])
async def test_a_page_is_not_wider_than_the_window(tab: Tab, site: Path, page: str) -> None:
    for width in WIDTHS:
        await show(tab, site, page, width)
        assert await tab.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("page", DOORS)
async def test_a_door_of_the_home_page_leads_to_two_screens(tab: Tab, site: Path, page: str) -> None:
    await show(tab, site, page)
    assert await tab.evaluate("document.querySelector('.content').scrollHeight") <= TWO_SCREENS + FOOTER


@pytest.mark.parametrize("page", [*DOORS, "how-to/install", "how-to/deploy-with-helm"])
async def test_a_copied_block_has_its_commands_without_prompts_and_outputs(
    tab: Tab, site: Path, page: str
) -> None:
    await show(tab, site, page)
    await tab.wait("document.querySelectorAll('.highlight-console button.copybtn').length > 0")
    blocks = await tab.evaluate(COPY)
    assert blocks
    shown = (DOCS / f"{page}.md").read_text()
    for line in "\n".join(blocks).splitlines():
        assert line.strip()
        assert f"$ {line}\n" in shown or f"\n{line}\n" in shown
        assert not line.startswith("$ ")


async def test_pages_declare_their_language(tab: Tab, site: Path) -> None:
    for page, language in (("index", "en"), ("zh/quick-start", "zh-CN")):
        await show(tab, site, page)
        assert await tab.evaluate("document.documentElement.lang") == language
