"""The summary of the benchmarks has the numbers of its pages; the plots are those of their tables."""

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tools import plots

PAGES = Path(__file__).parents[3] / "docs/benchmarks"
SUMMARY = plots.table((PAGES / "index.md").read_text(), "what", "result", "goal", "met", "page")
LARGE = """\
| nodes | pods | ready after | resident |
|---|---|---|---|
| 50 | 500 | 1.0 s | 70 MiB |

| verb | names | p50 | p99 |
|---|---|---|---|
| filter, all pass | 10 | 0.1 ms | 0.2 ms |
| filter, all refused | 10 | 0.3 ms | 0.4 ms |
| filter, all pass | 100 | 1 ms | 2 ms |
| filter, all refused | 100 | 3 ms | 4 ms |
"""
RIVALS = """\
| extender | nodes | p50 |
|---|---|---|
| gpushare, same day | 10 | 9 ms |
| A | 10 | 5 ms |
| A | 100 | 50 ms |
| B, tuned | 10 | 6 ms |
"""


def test_the_plots_are_current() -> None:
    """`make generate` writes them."""
    assert {path.name: path.read_text() for path in plots.FOLDER.iterdir()} == plots.plots()


def test_the_page_shows_every_plot() -> None:
    shown = re.findall(r"\(plots/(\S+\.svg)\)", (PAGES / "index.md").read_text())
    assert sorted(shown) == sorted(plots.plots())


@pytest.mark.parametrize("row", SUMMARY, ids=lambda row: row["what"])
def test_a_row_of_the_summary_has_the_numbers_of_its_page(row: dict[str, str]) -> None:
    (page,) = re.findall(r"\((\S+?\.md)", row["page"])
    known = set(re.findall(r"\d[\d.]*", (PAGES / page).read_text().replace(",", "")))
    assert set(re.findall(r"\d[\d.]*", f"{row['result']} {row['goal']}")) <= known
    assert row["met"] in ({""} if row["goal"] == "none" else {"yes", "no"})


def test_every_page_of_results_has_a_row_in_the_summary() -> None:
    linked = {page for row in SUMMARY for page in re.findall(r"\((\S+?\.md)", row["page"])}
    assert linked == {path.name for path in PAGES.glob("*.md")} - {"index.md", "rivals.md"}


def test_filter_is_plotted_by_nodes_with_the_medians_of_others() -> None:
    found = {each.name: each.points for each in plots.filter_series(LARGE, RIVALS)}
    assert found == {
        "gpushare, all pass, p50": [(10, 0.1), (100, 1)],
        "gpushare, all pass, p99": [(10, 0.2), (100, 2)],
        "gpushare, all refused, p50": [(10, 0.3), (100, 3)],
        "gpushare, all refused, p99": [(10, 0.4), (100, 4)],
        "A, p50": [(10, 5), (100, 50)],
        "B, tuned, p50": [(10, 6)],
    }


def test_memory_is_that_of_the_pages() -> None:
    bars = plots.memory_bars(LARGE, {"agent": "| resident, idle | | 86 MiB | 80 MiB |\n"})
    assert [(bar.name, bar.value) for bar in bars] == [("extender, 50 nodes, 500 pods", 70), ("agent", 86)]


def test_a_missing_table_or_row_is_named() -> None:
    with pytest.raises(SystemExit, match="no table has the columns arm, pods/s"):
        plots.rate_bars(LARGE, RIVALS)
    with pytest.raises(SystemExit, match="agent: the page has no row `resident`"):
        plots.memory_bars(LARGE, {"agent": "nothing"})


@pytest.mark.parametrize("name", plots.plots())
def test_a_plot_is_well_formed_and_nothing_leaves_its_frame(name: str) -> None:
    drawn = ET.fromstring(plots.plots()[name])  # noqa: S314 - our own text
    _, _, width, height = map(float, drawn.attrib["viewBox"].split())
    for text in drawn.iter("{http://www.w3.org/2000/svg}text"):
        x, size = float(text.attrib["x"]), 7.5 * len(text.text or "")
        left = x - {"start": 0, "middle": size / 2, "end": size}[text.attrib["text-anchor"]]
        assert 0 <= left <= left + size <= width, text.text
        assert 0 < float(text.attrib["y"]) <= height
