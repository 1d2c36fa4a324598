"""The plot of a simulation as SVG: the allocated part of the GPUs while pods arrive, by policy."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from gpushare.simulation.results import Results

_LEFT, _TOP, _WIDTH, _HEIGHT = 60, 30, 620, 340
_COLORS: Final = ("#3b82c4", "#d9822b", "#2e8540", "#a63d40", "#6f42c1", "#8a8f98", "#b58900", "#00838f")
_PERCENT: Final = 100
_ROW: Final = 20


def svg(results: Results) -> str:
    """The mean curve of each policy over its seeds."""
    curves = {name: _mean_curve([each.curve for each in found]) for name, found in results.items()}
    widest = max(x for points in curves.values() for x, _ in points)
    height = _TOP + _HEIGHT + 40 + _ROW * len(curves)
    body = [*_axes(widest)]
    for row, (name, points) in enumerate(curves.items()):
        body += _drawn(name, [_placed(x, y, widest) for x, y in points], row)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 {height}" role="img"'
    font = 'font-family="sans-serif" font-size="13" fill="#1f2328"'
    title = "<title>Allocated GPUs by requested GPUs</title>"
    return "\n".join([f"{head} {font}>", title, _background(height), *body, "</svg>"]) + "\n"


def _mean_curve(curves: Sequence[Sequence[tuple[float, float]]]) -> list[tuple[float, float]]:
    """Runs have as many points as they have pods; equal positions are averaged."""
    steps = zip(*curves, strict=False)
    return [(_mean(x for x, _ in points), _mean(y for _, y in points)) for points in steps]


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return sum(listed) / len(listed)


def _placed(x: float, y: float, widest: float) -> tuple[float, float]:
    return _LEFT + x / widest * _WIDTH, _TOP + _HEIGHT * (1 - y / _PERCENT)


def _background(height: int) -> str:
    return f'<rect width="720" height="{height}" fill="#ffffff"/>'


def _axes(widest: float) -> Iterable[str]:
    yield f'<text x="{_LEFT - 40}" y="16">GPU units allocated, %</text>'
    for percent in range(0, _PERCENT + 1, 20):
        _, y = _placed(0, percent, widest)
        yield f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{_LEFT + _WIDTH}" y2="{y:.1f}" stroke="#dddddd"/>'
        yield f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{percent}</text>'
    for percent in range(0, int(widest) + 1, 20):
        x, _ = _placed(percent, 0, widest)
        yield f'<text x="{x:.1f}" y="{_TOP + _HEIGHT + 18}" text-anchor="middle">{percent}</text>'
    middle = _LEFT + _WIDTH / 2
    yield f'<text x="{middle}" y="{_TOP + _HEIGHT + 36}" text-anchor="middle">GPU units requested, %</text>'


def _drawn(name: str, points: Sequence[tuple[float, float]], row: int) -> Iterable[str]:
    color = _COLORS[row % len(_COLORS)]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    y = _TOP + _HEIGHT + 52 + _ROW * row
    yield f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>'
    yield f'<rect x="{_LEFT}" y="{y - 8}" width="40" height="3" fill="{color}"/>'
    yield f'<text x="{_LEFT + 50}" y="{y}">{escape(name)}</text>'
