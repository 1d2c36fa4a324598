"""Draws the plots of the benchmark pages from their tables: ``make generate``.

Pure except for reading and writing files. What does not belong here: measurements, and the pictures of the
architecture (``docs.diagrams``).
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from itertools import product
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

PAGES: Final = Path(__file__).parents[1] / "docs/benchmarks"
FOLDER: Final = PAGES / "plots"
OURS, OTHERS = "#3b82c4", "#8a8f98"
_WIDTH, _ROW, _LEFT, _BARS = 800, 30, 290, 400
_PLOT: Final = (70, 30, 520, 300)
"""The area of a plot with axes: left, top, width, height."""
_NUMBER: Final = re.compile(r"[\d.]+")
_DASHES: Final = ("", "2 4", "7 4", "7 4 2 4")


class PlotLine(NamedTuple):
    """A line of a plot: its points, its color, and the pattern of its line."""

    name: str
    points: Sequence[tuple[float, float]]
    color: str = OURS
    dash: str = ""


class Bar(NamedTuple):
    """A horizontal bar, and the text behind it."""

    name: str
    value: float
    text: str
    color: str = OURS


# --- data ---------------------------------------------------------------------------------------


def table(text: str, *columns: str) -> list[dict[str, str]]:
    """Return the rows of the first table with these columns, and perhaps more."""
    for block in re.findall(r"(?:^\|.*\n){3,}", text, re.MULTILINE):
        head, _, *rows = (
            [cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines()
        )
        if set(columns) <= set(head):
            return [dict(zip(head, row, strict=False)) for row in rows]
    raise SystemExit(f"no table has the columns {', '.join(columns)}")


def number(text: str) -> float:
    """Return the first number of a cell."""
    if found := _NUMBER.search(text.replace(",", "")):
        return float(found[0])
    raise SystemExit(f"no number in {text!r}")


def filter_series(large: str, rivals: str) -> list[PlotLine]:
    """Return filter latency by number of nodes: ours, p50 and p99, and p50 of others."""
    found = []
    pairs = product(("all pass", "all refused"), ("p50", "p99"))
    for dash, (verb, column) in zip(_DASHES, pairs, strict=True):
        rows = [row for row in table(large, "verb", "names") if row["verb"].endswith(verb)]
        points = [(number(row["names"]), number(row[column])) for row in rows]
        found.append(PlotLine(f"gpushare, {verb}, {column}", points, OURS, dash))
    rows = table(rivals, "extender", "nodes", "p50")
    names = dict.fromkeys(row["extender"] for row in rows if "gpushare" not in row["extender"])
    for dash, name in zip(_DASHES[::2], names, strict=True):
        points = [(number(row["nodes"]), number(row["p50"])) for row in rows if row["extender"] == name]
        found.append(PlotLine(f"{name}, p50", points, OTHERS, dash))
    return found


def rate_bars(throughput: str, rivals: str) -> list[Bar]:
    """Return pods per second of each arm on shared cores, median of the rounds, and of others."""
    medians = {
        row["arm"].removesuffix(", shared cores"): median(map(float, row["pods/s, each round"].split(", ")))
        for row in table(throughput, "arm", "pods/s, each round")
        if row["arm"].endswith(", shared cores")
    }
    names = {"extender": "gpushare", "shortlist of 100": "gpushare, shortlist of 100"}
    ours = [Bar(names.get(arm, arm), value, f"{value:.0f}") for arm, value in medians.items()]
    others = [
        Bar(
            row["extender"],
            number(row["pods/s"]),
            f"{row['pods/s']} (no extender then: {row['plain scheduler']})",
            OTHERS,
        )
        for row in table(rivals, "extender", "pods/s")
        if "gpushare" not in row["extender"]
    ]
    return ours + others


def refused_bars(placement: str) -> list[Bar]:
    """Return the percentage of refused pods of each policy at the highest load."""
    rows = table(placement, "load", "policy", "pods refused")
    highest = max(rows, key=lambda row: number(row["load"]))["load"]
    return [
        Bar(row["policy"], value, f"{value:g} %", OTHERS if "random" in row["policy"] else OURS)
        for row in rows
        if row["load"] == highest
        for value in [number(row["pods refused"])]
    ]


def memory_bars(large: str, pages: Mapping[str, str]) -> list[Bar]:
    """Return the resident memory of each service, from the page of the extender and the other texts."""
    row = table(large, "nodes", "resident")[0]
    what = f"extender, {row['nodes']} nodes, {row['pods']} pods"
    found = {what: number(row["resident"])}
    for name, page in pages.items():
        rows = re.findall(r"^\| resident[^|]*\|.*?(\d+) MiB", page, re.MULTILINE)
        if not rows:
            raise SystemExit(f"{name}: the page has no row `resident` in MiB")
        found[name] = float(rows[0])
    return [Bar(name, value, f"{value:.0f} MiB") for name, value in found.items()]


def sections(page: str) -> dict[str, str]:
    """Return the texts below the headings of a page, by heading."""
    return dict(re.findall(r"^## (.+)\n((?:(?!## ).*\n)*)", page, re.MULTILINE))


# --- drawing ------------------------------------------------------------------------------------


def line_plot(title: str, across: str, up: str, series: Sequence[PlotLine]) -> str:
    """Return a plot with two logarithmic axes and a legend."""
    left, top, width, height = _PLOT
    xs = [x for each in series for x, _ in each.points]
    ys = [y for each in series for _, y in each.points]
    low, high = math.floor(math.log10(min(ys))), math.ceil(math.log10(max(ys)))
    first, last = math.log10(min(xs)), math.log10(max(xs))

    def place(x: float, y: float) -> tuple[float, float]:
        part, level = (math.log10(x) - first) / (last - first), (math.log10(y) - low) / (high - low)
        return left + part * width, top + height - level * height

    body = [_text(left - 40, 16, up)]
    for power in range(low, high + 1):
        _, y = place(xs[0], 10.0**power)
        body += [_line(left, y, left + width, y), _text(left - 8, y + 4, f"{10.0**power:g}", "end")]
    for x in sorted(set(xs)):
        body.append(_text(place(x, 1)[0], top + height + 18, f"{x:,.0f}", "middle"))
    body.append(_text(left + width / 2, top + height + 38, across, "middle"))
    for row, each in enumerate(series):
        body += _drawn(each, [place(*point) for point in each.points], top + height + 62 + 20 * row)
    return _document(title, top + height + 62 + 20 * len(series), body)


def _drawn(series: PlotLine, points: Sequence[tuple[float, float]], legend: float) -> Iterable[str]:
    """The line with its points, and its entry in the legend."""
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    style = f'fill="none" stroke="{series.color}" stroke-width="2" stroke-dasharray="{series.dash}"'
    yield f'<polyline points="{path}" {style}/>'
    yield from (f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{series.color}"/>' for x, y in points)
    yield f'<polyline points="{_PLOT[0]},{legend - 4} {_PLOT[0] + 40},{legend - 4}" {style}/>'
    yield _text(_PLOT[0] + 50, legend, series.name)


def bar_plot(title: str, bars: Sequence[Bar]) -> str:
    """Return horizontal bars from zero, each with its value."""
    longest = max(bar.value for bar in bars)
    body = []
    for row, bar in enumerate(bars):
        y, width = 16 + _ROW * row, bar.value / longest * (_BARS - 60)
        body.append(_text(_LEFT - 10, y + 15, bar.name, "end"))
        body.append(f'<rect x="{_LEFT}" y="{y}" width="{width:.1f}" height="20" fill="{bar.color}"/>')
        body.append(_text(_LEFT + width + 8, y + 15, bar.text))
    return _document(title, 20 + _ROW * len(bars), body)


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#dddddd"/>'


def _document(title: str, height: float, body: Sequence[str]) -> str:
    """A file with its own background: the pages show it as an image, in a light and a dark theme."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height:.0f}" role="img"'
    font = 'font-family="sans-serif" font-size="13" fill="#1f2328"'
    background = f'<rect width="{_WIDTH}" height="{height:.0f}" fill="#ffffff"/>'
    return (
        "\n".join([f"{head} {font}>", f"<title>{escape(title)}</title>", background, *body, "</svg>"]) + "\n"
    )


# --- files --------------------------------------------------------------------------------------


def plots() -> dict[str, str]:
    """Return all plots by file name."""
    large, rivals, services = (
        (PAGES / f"{name}.md").read_text() for name in ("extender", "rivals", "services")
    )
    memory = memory_bars(
        large, {f"{name[0].lower()}{name[1:]}": text for name, text in sections(services).items()}
    )
    return {
        "filter.svg": line_plot(
            "Latency of filter by number of nodes", "nodes", "ms", filter_series(large, rivals)
        ),
        "rates.svg": bar_plot("Pods per second", rate_bars(large, rivals)),
        "placement.svg": bar_plot("Refused pods by placement policy", refused_bars(large)),
        "memory.svg": bar_plot("Resident memory", memory),
    }


def main() -> None:
    """Write all plots."""
    FOLDER.mkdir(exist_ok=True)
    for name, text in plots().items():
        (FOLDER / name).write_text(text)


if __name__ == "__main__":
    main()
