"""The page in a real browser: it draws, filters, works with the keyboard, and takes names as text only."""

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from http import HTTPStatus
from itertools import product
from typing import Any, cast

import pytest
import pytest_asyncio

from gpushare.adapters.kube.client import KubeClient
from gpushare.board.admissions import Admissions
from gpushare.board.collect import Watched
from gpushare.board.daemon import BoardServer
from gpushare.board.health import ControlPlane
from gpushare.board.local import LOOPBACK, Answers
from gpushare.board.login import ADMITTED, NO_TOKEN, Admission
from gpushare.board.past import Past, PastSource
from gpushare.board.server import listening
from gpushare.board.state import Lost
from gpushare.runtime.listener import bind_socket
from tests.process.cli.board.fixtures import (
    Earlier,
    NamespacePage,
    Page,
    namespace_page,
    page_of,
    served,
)
from tests.support.builders.boards import Cluster, example, large
from tests.support.chromium import Tab, chromium

pytestmark = [
    pytest.mark.needs("chromium"),
    pytest.mark.asyncio(loop_scope="module"),
]

ROWS = """[...document.querySelectorAll('#{} tbody tr')].map(
  (row) => [...row.cells].map((cell) => cell.innerText.trim()))"""
NAMES = """[...document.querySelectorAll('#nodes tbody th, #map .node')].filter(
  (each) => each.checkVisibility()).map((each) => each.dataset.node || each.innerText.split('\\n')[0])"""
DRAWN = "document.documentElement?.dataset.tag === '\"{}\"'"
OUTSIDE = """[...document.querySelectorAll('body *')].filter((each) => {
  const box = each.getBoundingClientRect();
  return each.checkVisibility() && box.width > 1 && (box.right > innerWidth + 1 || box.left < -1);
}).map((each) => each.outerHTML.slice(0, 80))"""
BOXES = "[...document.querySelectorAll('{}')].map((each) => each.getBoundingClientRect().toJSON())"
FOLD = "document.querySelectorAll('details').forEach((each) => { each.open = false; })"
NO_CHOICE = "(history.replaceState(null, '', location.pathname), dispatchEvent(new Event('hashchange')))"
FOCUSED = "document.activeElement.id || document.activeElement.className || document.activeElement.tagName"
COLOURS = """(() => {
  const canvas = document.createElement("canvas").getContext("2d");
  const style = getComputedStyle(document.documentElement);
  return Object.fromEntries(%s.map((name) => {
    canvas.fillStyle = style.getPropertyValue(name).trim();
    return [name, canvas.fillStyle];
  }));
})()"""
TEXTS, BACKGROUNDS = ("--text", "--muted", "--red", "--amber"), ("--page", "--panel", "--hover")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tab() -> AsyncIterator[Tab]:
    async with chromium() as found:
        await found.emulate(1360, 1100)
        yield found


class Shown:
    """A page that is open in the browser."""

    def __init__(self, page: Any, tab: Tab) -> None:
        self.page = page
        self.tab = tab

    async def rows(self, table: str) -> list[list[str]]:
        found: list[list[str]] = await self.tab.evaluate(ROWS.format(table))
        return found

    async def choose(self, field: str, value: str) -> None:
        """As a user who types or selects."""
        script = f"(() => {{ const field = document.getElementById('{field}'); field.value = {value!r}; "
        script += "field.dispatchEvent(new Event('input', { bubbles: true })); })()"
        await self.tab.evaluate(script)

    async def nodes(self) -> list[str]:
        found: list[str] = await self.tab.evaluate(NAMES)
        return found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def open_page(tab: Tab) -> AsyncIterator[Shown]:
    page = page_of(example())
    async with served(page) as url:
        yield await opened(page, url, tab)
        await tab.open("about:blank")


@pytest_asyncio.fixture(loop_scope="module")
async def shown(open_page: Shown) -> AsyncIterator[Shown]:
    """The page of the example, without a filter."""
    before = open_page.page.document
    yield open_page
    assert open_page.tab.problems == []
    open_page.page.document = before
    await open_page.tab.emulate(1360, 1100)
    await open_page.tab.evaluate(FOLD)
    await open_page.tab.evaluate(NO_CHOICE)
    await open_page.tab.wait(DRAWN.format(before.tag))


async def opened(page: Page | NamespacePage, url: str, tab: Tab) -> Shown:
    await tab.open(url)
    await tab.wait(DRAWN.format(page.document.tag))
    return Shown(page, tab)


async def test_it_draws_what_the_document_has(shown: Shown) -> None:
    rows = await shown.rows("nodes")
    assert len(rows) == 7
    assert rows[0] == [
        "gpu-t4-2\nTesla T4 · share",
        "",
        "16 / 28 GiB",
        "14.3 GiB",
        "49 %",
        "2",
        "1 GPU over-committed",
    ]
    assert rows[1][3:] == ["no data", "no data", "1", "1 GPU unhealthy"]
    tiles = await shown.tab.evaluate("document.getElementById('tiles').innerText")
    assert "726 / 1,016 GiB" in tiles
    assert "1 node without data" in tiles
    assert "988" not in tiles
    assert (await shown.rows("idle"))[0][1] == "job/eval"


async def test_the_state_of_the_control_plane_is_the_first_thing(shown: Shown) -> None:
    made = example()
    shown.page.show(made.state(time.time(), control_plane=ControlPlane()))
    await shown.tab.wait(DRAWN.format(shown.page.document.tag))
    first = await shown.tab.evaluate("document.querySelector('main > section li').textContent")
    assert first.startswith("Failed: No extender runs in kube-system")
    command = await shown.tab.evaluate("document.querySelector('#health code').innerText")
    assert command == "kubectl gpushare doctor"
    tops = await shown.tab.evaluate(
        "['health', 'tiles', 'nodes', 'pending'].map("
        "(id) => document.getElementById(id).getBoundingClientRect().top)"
    )
    assert tops == sorted(tops)


async def test_equal_pending_pods_are_one_row(shown: Shown) -> None:
    one, six = await shown.rows("pending")
    assert one[:2] == ["finetune-70b\nllm-research", "60 GiB"]
    assert six[:2] == ["6 pods\nnotebooks", "96 GiB"]
    await shown.tab.evaluate("document.querySelector('#pending .names summary').click()")
    assert "notebooks/jupyter-8" in (await shown.rows("pending"))[1][0]


async def test_no_limit_and_no_data_are_different_words_and_a_pod_says_why_it_does_not_run(
    shown: Shown,
) -> None:
    await shown.choose("node", "gpu-t4")
    rows = {row[1]: row for row in await shown.rows("pods")}
    assert rows["asr-live"][5:] == ["Running", "11 h", "6 GiB", "5.9 GiB", "no limit", "89 %"]
    assert rows["tts"][8:] == ["no data", "no data", "no data"]
    assert rows["sandbox"][5] == "not running: ErrImagePull"
    idle = {row[1]: row for row in await shown.rows("idle")}
    [waits] = [row for name, row in idle.items() if name.startswith("statefulset/sandbox")]
    assert waits[1:6] == ["statefulset/sandbox\nnot running: ErrImagePull", "1", *["not running"] * 3]


async def test_a_node_opens_with_its_pods_and_closes_with_escape(shown: Shown) -> None:
    await shown.tab.evaluate("document.querySelector('[data-node=gpu-a10-1]').click()")
    assert await shown.tab.evaluate(FOCUSED) == "detail-title"
    text = await shown.tab.evaluate("document.getElementById('detail').innerText")
    for part in (
        "gpu-a10-1",
        "Largest free block",
        "vision/train-resnet-0",
        "peak 12.6 GiB",
        "limit 14.0 GiB",
    ):
        assert part in text
    await shown.tab.press("Escape")
    assert await shown.tab.evaluate("document.getElementById('detail').hidden")
    assert await shown.tab.evaluate("document.activeElement.dataset.node") == "gpu-a10-1"


async def test_the_url_opens_the_same_view(shown: Shown) -> None:
    await shown.choose("node", "gpu-a10")
    await shown.tab.evaluate("document.querySelector('#nodes thead th:nth-child(4) button').click()")
    await shown.tab.evaluate("document.querySelector('[data-node=gpu-a10-2]').click()")
    url = await shown.tab.evaluate("location.href")
    assert await shown.nodes() == ["gpu-a10-2", "gpu-a10-1"]
    await shown.tab.evaluate(NO_CHOICE)
    assert len(await shown.nodes()) == 7
    await shown.tab.evaluate(f"location.hash = {json.dumps(url.partition('#')[2])}")
    await shown.tab.wait("!document.getElementById('detail').hidden")
    assert await shown.nodes() == ["gpu-a10-2", "gpu-a10-1"]
    assert await shown.tab.evaluate("document.getElementById('detail-title').textContent") == "gpu-a10-2"
    assert await shown.tab.evaluate("document.getElementById('node').value") == "gpu-a10"
    assert await shown.tab.evaluate("document.querySelector('#nodes [aria-sort]').innerText.trim()") == "Used"


async def test_tables_sort_by_a_click_on_the_title(shown: Shown) -> None:
    titles = "[...document.querySelectorAll('#pods thead button')]"
    by_used = f"{titles}.find((each) => each.textContent === 'Used').click()"
    for first in ("llm-0", "sandbox", "ranker-0"):
        await shown.tab.evaluate(by_used)
        assert (await shown.rows("pods"))[0][1] == first


async def test_before_there_are_samples_the_chart_is_a_sentence(shown: Shown) -> None:
    shown.page.show(example().state(time.time()))
    await shown.tab.wait(DRAWN.format(shown.page.document.tag))
    text = await shown.tab.evaluate("document.getElementById('history').innerText")
    assert "The chart begins with the first samples." in text
    assert not await shown.tab.evaluate("document.getElementById('plot').checkVisibility()")


async def test_without_prometheus_there_is_the_last_hour_and_what_gives_more(shown: Shown) -> None:
    line = "document.getElementById('chart-none').innerText"
    assert await shown.tab.wait(f"{line}.includes('--prometheus') && {line}") == (
        "Earlier days need Prometheus, and this board knows none. "
        "Start kubectl gpushare board with --prometheus URL."
    )
    for part in ("chart-ranges", "tenants-section"):
        assert not await shown.tab.evaluate(f"document.getElementById('{part}').checkVisibility()")


async def test_map_and_table_show_the_same_nodes(shown: Shown) -> None:
    in_table = await shown.nodes()
    await shown.tab.evaluate("document.getElementById('as-map').click()")
    assert await shown.nodes() == in_table
    assert await shown.tab.evaluate("location.hash") == "#layout=map"
    label = await shown.tab.evaluate("document.querySelector('#map .node').getAttribute('aria-label')")
    assert label == "gpu-t4-2: 16 of 28 GiB allocated, 14.3 GiB used, 2 GPUs, 1 GPU over-committed"


async def test_it_asks_only_its_own_server_and_the_token_leaves_the_address(shown: Shown) -> None:
    assert "token" not in await shown.tab.evaluate("location.href")
    origin = await shown.tab.evaluate("location.origin")
    assert {url for url in shown.tab.requests if not url.startswith(origin)} == set()
    assert await shown.tab.evaluate("document.cookie") == ""


async def test_filters(shown: Shown) -> None:
    await shown.choose("node", "a10")
    assert await shown.nodes() == ["gpu-a10-1", "gpu-a10-2"]
    assert {row[3] for row in await shown.rows("pods")} == {"gpu-a10-1", "gpu-a10-2"}
    await shown.choose("node", "")
    await shown.choose("namespace", "notebooks")
    assert await shown.nodes() == ["gpu-t4-1"]
    assert {row[0] for row in await shown.rows("pods")} == {"notebooks"}
    assert [row[0] for row in await shown.rows("pending")] == ["6 pods\nnotebooks"]
    assert [row[1] for row in await shown.rows("idle")] == [
        "statefulset/jupyter",
        "statefulset/sandbox\nnot running: ErrImagePull",
    ]
    await shown.choose("namespace", "")
    await shown.choose("model", "Tesla V100-SXM2-32GB")
    assert await shown.nodes() == ["gpu-v100-1"]
    await shown.tab.evaluate("document.getElementById('reset').click()")
    await shown.tab.wait("document.querySelectorAll('#nodes tbody').length === 7")
    await shown.tab.evaluate("document.getElementById('only').click()")
    assert await shown.nodes() == ["gpu-t4-2", "gpu-t4-3", "gpu-v100-1"]
    assert "3 nodes shown" in await shown.tab.evaluate("document.getElementById('matches').textContent")


async def test_the_keyboard_reaches_everything_in_the_order_of_the_page(shown: Shown) -> None:
    order = []
    await shown.tab.evaluate("document.body.prepend(document.querySelector('.skip'))")  # focus begins there
    for _ in range(9):
        await shown.tab.press("Tab")
        order.append(await shown.tab.evaluate(FOCUSED))
    assert order == ["skip", "node", "namespace", "model", "only", "reset", "SUMMARY", "as-map", "as-table"]
    await shown.tab.evaluate("document.querySelector('#pending summary').focus()")
    await shown.tab.press("Enter")
    assert await shown.tab.evaluate("document.activeElement.parentElement.open")
    await shown.tab.press("/")
    assert await shown.tab.evaluate(FOCUSED) == "node"
    for key in "v100":
        await shown.tab.press(key)
    assert await shown.nodes() == ["gpu-v100-1"]


async def test_a_new_document_keeps_focus_and_what_is_open(shown: Shown) -> None:
    await shown.tab.evaluate("document.querySelector('#pending summary').focus()")
    await shown.tab.press("Enter")
    made = example()
    made.add_pod("speech/new", "gpu-t4-1", 0, 1)
    shown.page.show(made.state(time.time()))
    await shown.tab.wait(DRAWN.format(shown.page.document.tag))
    assert "Pods 35" in await shown.tab.evaluate("document.getElementById('pods-title').innerText")
    assert await shown.tab.evaluate("document.activeElement === document.querySelector('#pending summary')")
    assert await shown.tab.evaluate("document.querySelector('#pending details').open")


async def test_tables_and_bars_have_names_for_a_screen_reader(shown: Shown) -> None:
    found = await shown.tab.command("Accessibility.getFullAXTree")
    nodes = [(each["role"]["value"], each.get("name", {}).get("value", "")) for each in found["nodes"]]
    regions = [name for role, name in nodes if role == "region"]
    for name in ("Pending pods 7", "Nodes and GPUs 7", "Allocated and idle 11", "Pods 34"):
        assert name in regions
    assert ("image", "gpu-t4-1: 14 of 28 GiB allocated, 1.4 GiB used, 2 GPUs") in nodes
    assert any(
        role == "image" and name.startswith("Last 41 min, whole cluster. allocated: ") for role, name in nodes
    )
    assert {
        name for role, name in nodes if role in ("columnheader", "checkbox", "searchbox", "combobox")
    } >= {
        *("Node", "GPUs", "State", "Only problems", "Namespace", "Model"),
    }
    unnamed = [
        role for role, name in nodes if role in ("button", "searchbox", "combobox", "table") and not name
    ]
    assert unnamed == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_texts_have_contrast_in_both_colour_schemes(shown: Shown, scheme: str) -> None:
    await shown.tab.emulate(1360, 1100, scheme)
    colours = await shown.tab.evaluate(COLOURS % json.dumps([*TEXTS, *BACKGROUNDS]))
    for text, background in product(TEXTS, BACKGROUNDS):
        assert contrast(colours[text], colours[background]) >= 4.5, (text, background)


def contrast(one: str, other: str) -> float:
    """The contrast ratio of WCAG 2.2 of two colours such as ``#1c2128``."""
    low, high = sorted(map(luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


def luminance(colour: str) -> float:
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


async def test_light_and_dark_pictures_differ(shown: Shown) -> None:
    pictures = []
    for scheme in ("dark", "light"):
        await shown.tab.emulate(1360, 1100, scheme)
        pictures.append(await shown.tab.picture())
    assert pictures[0] != pictures[1]
    assert min(map(len, pictures)) > 50_000


@pytest.mark.parametrize("layout", ["table", "map"])
async def test_on_a_phone_nothing_is_outside_of_the_screen(shown: Shown, layout: str) -> None:
    await shown.tab.emulate(390, 844)
    await shown.tab.evaluate(f"document.getElementById('as-{layout}').click()")
    assert await shown.tab.evaluate(OUTSIDE) == []
    assert await shown.tab.evaluate("document.documentElement.scrollWidth") == 390
    why, helps = (await shown.tab.evaluate(BOXES.format("#pending tbody .text")))[:2]
    assert why["bottom"] <= helps["top"]
    assert min(why["width"], helps["width"]) > 300
    await shown.tab.evaluate("document.querySelector('#map .node, #nodes [data-node]').click()")
    assert await shown.tab.evaluate(OUTSIDE) == []


@pytest.mark.parametrize("width", [1024, 1440])
async def test_on_wider_screens_nothing_is_outside_of_the_screen(shown: Shown, width: int) -> None:
    await shown.tab.emulate(width, 900)
    assert await shown.tab.evaluate(OUTSIDE) == []


async def test_a_lost_api_server_is_stated_and_the_figures_stay(shown: Shown) -> None:
    seen = example().state(time.time())
    shown.page.show(replace(seen, lost=Lost(time.time() - 90, "connection refused")))
    text = await shown.tab.wait(
        "!document.getElementById('lost').hidden && document.getElementById('lost').innerText"
    )
    assert text.startswith("No data from the API server since ")
    assert text.endswith("connection refused")
    assert await shown.tab.evaluate("document.getElementById('live').textContent") == "Not live"
    assert "726 / 1,016 GiB" in await shown.tab.evaluate("document.getElementById('tiles').innerText")
    shown.page.show(seen)
    await shown.tab.wait("document.getElementById('lost').hidden")


@dataclass
class Days:
    """A page with earlier days in the browser."""

    shown: Shown
    earlier: Earlier
    url: str

    async def open(self, view: str = "") -> None:
        """Anew, with the answers of now."""
        await self.shown.tab.open("about:blank")
        await self.shown.tab.open(f"{self.url.partition('?')[0]}#{view}")
        await self.shown.tab.wait("document.getElementById('chart-ranges')?.checkVisibility()")

    async def press(self, group: str, text: str) -> None:
        buttons = f"[...document.querySelectorAll('#{group} button')]"
        await self.shown.tab.evaluate(f"{buttons}.find((each) => each.textContent === {text!r}).click()")

    async def title(self, beginning: str) -> str:
        """The description of the chart, once it begins so."""
        label = "document.getElementById('chart').getAttribute('aria-label')"
        found: str = await self.shown.tab.wait(f"{label}?.startsWith({beginning!r}) && {label}")
        return found

    async def text(self, element: str, part: str) -> str:
        """The text of an element, once it is shown and has this part."""
        each = f"document.getElementById('{element}')"
        script = f"{each}.checkVisibility() && {each}.innerText.includes({part!r}) && {each}.innerText"
        found: str = await self.shown.tab.wait(script)
        return found


@pytest_asyncio.fixture(loop_scope="module")
async def days(tab: Tab) -> AsyncIterator[Days]:
    earlier, page = Earlier(), page_of(example())
    async with served(page, earlier.answer) as url:
        yield Days(await opened(page, url, tab), earlier, url)
        await tab.emulate(1360, 1100)
        await tab.open("about:blank")


async def test_a_longer_time_is_a_click_and_part_of_the_url(days: Days) -> None:
    await days.open()
    assert (await days.title("Last 41 min, whole cluster.")).count("no data") == 0
    await days.press("chart-ranges", "7 d")
    assert "used: " in await days.title("Last 7 d, whole cluster. allocated: ")
    assert await days.shown.tab.evaluate("location.hash") == "#range=7d"
    assert await days.shown.tab.evaluate("document.querySelectorAll('#chart rect.gap').length") == 1
    pressed = "document.querySelector('#chart-ranges [aria-pressed=true]').textContent"
    assert await days.shown.tab.evaluate(pressed) == "7 d"
    await days.open("range=24h")
    await days.title("Last 24 h, whole cluster.")
    await days.press("chart-ranges", "last hour")
    await days.title("Last 41 min, whole cluster.")
    assert await days.shown.tab.evaluate("location.hash") == ""
    assert days.shown.tab.problems == []


async def test_namespaces_have_hours_idle_memory_and_quota(days: Days) -> None:
    await days.open()
    await days.text(
        "tenants-note", "In the last 30 d, pods of all namespaces were allocated 12,150.0 GPU-hours"
    )
    rows = await days.shown.rows("tenants")
    assert rows[0] == [
        *("llm-research", "6,900.0", "5,130.0 (74 %)", "156,000.0", "140,400.0 (90 %)", "10 %", "no quota"),
    ]
    assert rows[-1][1:] == ["0.0", "0.0", "0.0", "0.0", "nothing allocated", "0 of 16 GiB"]
    titles = "[...document.querySelectorAll('#tenants thead button')]"
    await days.shown.tab.evaluate(f"{titles}.find((each) => each.textContent === 'Idle memory').click()")
    assert [row[0] for row in await days.shown.rows("tenants")][:2] == ["notebooks", "vision"]
    await days.press("tenants-ranges", "24 h")
    await days.text("tenants-note", "In the last 24 h")
    assert (await days.shown.rows("tenants"))[0][1] == "44.0"
    assert await days.shown.tab.evaluate("location.hash") == "#hours=24h&sort.tenants=-idle+memory"
    await days.shown.choose("namespace", "speech")
    assert [row[0] for row in await days.shown.rows("tenants")] == ["speech"]
    assert days.shown.tab.problems == []


async def test_an_error_of_prometheus_is_in_the_place_of_its_answer(days: Days) -> None:
    days.earlier.fault = "http://127.0.0.1:9090: connection refused"
    await days.open("range=6h")
    await days.text("chart-empty", days.earlier.fault)
    await days.text("tenants-note", days.earlier.fault)
    for part in ("plot", "tenants-table"):
        assert not await days.shown.tab.evaluate(f"document.getElementById('{part}').checkVisibility()")
    assert "726 / 1,016 GiB" in await days.shown.tab.evaluate("document.getElementById('tiles').innerText")
    await days.press("chart-ranges", "last hour")
    await days.title("Last 41 min, whole cluster.")
    assert await days.shown.tab.evaluate("document.getElementById('plot').checkVisibility()")
    days.shown.tab.problems.clear()  # answers with 502


async def test_a_prometheus_without_records_is_stated(days: Days) -> None:
    days.earlier.empty = True
    await days.open("range=30d")
    await days.text("chart-empty", "Prometheus has nothing of the last 30 d")
    await days.text("tenants", "No namespace was allocated GPUs in this time.")
    assert days.shown.tab.problems == []


async def test_quotas_that_the_user_may_not_read_are_unknown(days: Days) -> None:
    days.earlier.quotas = False
    await days.open()
    await days.text("tenants-note", "quotas are unknown: ada may not list resourcequotas")
    assert {row[-1] for row in await days.shown.rows("tenants")} == {"unknown"}


@pytest.mark.parametrize("width", [390, 1024, 1440])
async def test_earlier_days_fit_the_screen(days: Days, width: int) -> None:
    await days.shown.tab.emulate(width, 900)
    await days.open("range=30d")
    await days.title("Last 30 d")
    await days.text("tenants-note", "In the last 30 d")
    assert await days.shown.tab.evaluate(OUTSIDE) == []


async def test_the_keyboard_chooses_a_time(days: Days) -> None:
    await days.open()
    await days.shown.tab.evaluate("document.querySelector('#chart-ranges button').focus()")
    await days.shown.tab.press("Tab")
    await days.shown.tab.press("Enter")
    await days.title("Last 6 h")
    assert await days.shown.tab.evaluate("document.activeElement.textContent") == "6 h"
    found = await days.shown.tab.command("Accessibility.getFullAXTree")
    nodes = [(each["role"]["value"], each.get("name", {}).get("value", "")) for each in found["nodes"]]
    assert ("group", "Time of the chart") in nodes
    assert ("group", "Time of the hours") in nodes
    assert ("region", "Namespaces 6") in nodes


@asynccontextmanager
async def other(page: Page | NamespacePage, tab: Tab, past: Answers | None = None) -> AsyncIterator[Shown]:
    """Another page in the same browser."""
    async with served(page, past) as url:
        yield await opened(page, url, tab)
        assert tab.problems == []
        await tab.open("about:blank")


HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "\"'><script>alert(1)</script>",
    "</td></table><h1>x",
    "javascript:alert(1)",
    "${alert(1)}",
    "__proto__",
    "constructor",
    "\u202egnp.exe",
]


async def test_hostile_names_are_text(tab: Tab) -> None:
    made = Cluster()
    for number, text in enumerate(HOSTILE):
        made.add_node(text, text, [14])
        made.add_pod("a/p", text, 0, 4, owner=(text, text))
        made.pods[-1]["metadata"] |= {"name": text, "namespace": text, "uid": f"uid-{number}"}
        made.add_pending("a/q", 20 + number, text)
        made.pods[-1]["metadata"] |= {"name": text, "namespace": text, "uid": f"pending-{number}"}
    page = Page(made.state(time.time()))
    async with other(page, tab) as shown:
        assert await shown.nodes() == sorted(HOSTILE)
        assert sorted(row[0].split("\n")[0] for row in await shown.rows("pending")) == sorted(HOSTILE)
        for text in HOSTILE:
            await shown.choose("namespace", text)
            assert [row[1] for row in await shown.rows("pods")] == [text]
        assert await tab.evaluate("document.querySelectorAll('img, h1 ~ h1, main script').length") == 0
        assert await tab.evaluate("document.scripts.length") == 1


async def test_the_end_of_the_board_is_stated(tab: Tab) -> None:
    page = page_of(example())
    async with served(page) as url:
        await opened(page, url, tab)
    text = await tab.wait(
        "!document.getElementById('lost').hidden && document.getElementById('lost').innerText"
    )
    assert text.startswith("No data since ")
    assert "Run kubectl gpushare board again" in text
    await tab.open("about:blank")
    tab.problems.clear()  # refused connections


class SharedCluster:
    """A FAKE of the watched cluster, and of the API server's reviews."""

    def __init__(self) -> None:
        self.document = page_of(example()).document
        self.lost_since: float | None = None
        self.admission = ADMITTED

    async def of(self, _: str) -> Admission:
        return self.admission


async def test_in_a_cluster_a_lost_api_server_is_stated_with_its_time(tab: Tab) -> None:
    cluster = SharedCluster()
    past = Past(PastSource(), cast("KubeClient", None))
    server = BoardServer(cast("Watched", cluster), cast("Admissions", cluster), past)
    with bind_socket(LOOPBACK, 0) as listener:
        async with listening(server.answer, listener):
            await tab.open(f"http://{LOOPBACK}:{listener.getsockname()[1]}/")
            await tab.wait("document.documentElement?.dataset.tag")
            cluster.lost_since = time.time() - 7200
            cluster.admission = Admission(HTTPStatus.SERVICE_UNAVAILABLE, "connection refused")
            text = await tab.wait(
                "!document.getElementById('lost').hidden && document.getElementById('lost').innerText"
            )
            said = await tab.evaluate(f"new Date({1000 * cluster.lost_since}).toTimeString().slice(0, 8)")
            assert f" {said}. " in text
            assert text.startswith("No data from the API server since ")
            assert text.endswith("connection refused")
            assert await tab.evaluate("document.body.classList.contains('stale')")
            assert "726 / 1,016 GiB" in await tab.evaluate("document.getElementById('tiles').innerText")
            cluster.admission = ADMITTED
            await tab.wait("document.getElementById('lost').hidden")
            await tab.open("about:blank")
    tab.problems.clear()  # answers with 503


async def test_the_view_of_a_url_outlives_signing_in(tab: Tab) -> None:
    cluster = SharedCluster()
    cluster.admission = NO_TOKEN
    past = Past(PastSource(), cast("KubeClient", None))
    server = BoardServer(cast("Watched", cluster), cast("Admissions", cluster), past)
    with bind_socket(LOOPBACK, 0) as listener:
        async with listening(server.answer, listener):
            await tab.open(f"http://{LOOPBACK}:{listener.getsockname()[1]}/#open=gpu-a10-1")
            await tab.wait("document.querySelector('form')?.action.endsWith('#open=gpu-a10-1')")
            cluster.admission = ADMITTED
            await tab.leave("(token.value = 'abc', document.querySelector('form button').click())")
            assert await tab.wait("document.getElementById('detail-title')?.innerText") == "gpu-a10-1"
            await tab.open("about:blank")
    tab.problems.clear()  # the login page is an answer with 401


async def test_the_board_of_one_namespace(tab: Tab) -> None:
    async with other(namespace_page(), tab) as shown:
        rows = {row[0]: row for row in await shown.rows("pods")}
        assert rows["eval-7"][4:] == [
            "Running",
            "12 h",
            "4 GiB",
            "3.9 GiB",
            "4.4 GiB",
            "4.0 GiB",
            "40 %",
            "12",
        ]
        assert rows["free"][9] == "no limit"
        assert rows["broken"][4] == "not running: ErrImagePull"
        assert [row[0] for row in await shown.rows("pending")] == ["3 pods\nteam-a"]
        assert (await shown.rows("fits"))[0][1:4] == ["4 of 4 take pods", "22 GiB", "16 GiB"]
        assert "namespace team-a" in await tab.evaluate("document.getElementById('cluster').textContent")
        assert not await tab.evaluate("document.getElementById('nodes-section').checkVisibility()")
        for width in (390, 1024, 1360):
            await tab.emulate(width, 1100)
            assert await tab.evaluate(OUTSIDE) == []


@pytest.mark.parametrize("has_prometheus", [True, False])
async def test_two_hundred_nodes_are_on_one_screen(tab: Tab, *, has_prometheus: bool) -> None:
    page = page_of(large(200))
    async with other(page, tab, Earlier(available=has_prometheus).answer) as shown:
        await tab.emulate(1440, 900)
        visible = "chart-ranges" if has_prometheus else "chart-none"
        await tab.wait(f"document.getElementById('{visible}').checkVisibility()")
        assert len(await shown.nodes()) == 200
        assert await tab.evaluate("document.getElementById('map').getBoundingClientRect().bottom <= 900")
        await tab.emulate(1360, 1100)


async def test_a_thousand_nodes_are_a_map_of_few_elements(tab: Tab) -> None:
    page = Page(large(1000, gpus=1).state(time.time()))
    async with other(page, tab) as shown:
        assert len(await shown.nodes()) == 1000
        assert await tab.evaluate("document.querySelectorAll('*').length") < 6000
        await shown.choose("node", "node-0999")
        assert await shown.nodes() == ["node-0999"]
        await shown.choose("node", "")
        await tab.evaluate("document.getElementById('as-table').click()")
        assert len(await shown.nodes()) == 50
        more: Any = await tab.evaluate("document.querySelector('#nodes-table .more').textContent")
        assert more == "Show 100 more of 1,000 nodes"
        await tab.evaluate("document.querySelector('#nodes-table .more').click()")
        assert len(await shown.nodes()) == 150
