"""What a dashboard consists of: rows, panels, tables, and the colors of values.

The dashboards of this project are in ``dashboards``, their conversion to Grafana's JSON in ``grafana``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

Color = Literal["green", "orange", "red", "blue"]
Steps = tuple[tuple[float, Color], ...]
"""Colors of a value, each from its lower bound on; the first bound is that of all smaller values."""
Kind = Literal["graph", "number", "bars", "heat", "states"]
"""``heat`` counts things by the bounds of the label ``le``, ``states`` has a colored row for each series."""

NEUTRAL: Final[Steps] = ((0, "blue"),)
"""For values that are neither good nor bad."""
NONE_IS_GOOD: Final[Steps] = ((0, "green"), (1, "red"))
NONE_IS_BETTER: Final[Steps] = ((0, "green"), (1, "orange"))
EXACTLY_ONE: Final[Steps] = ((0, "red"), (1, "green"), (2, "red"))
FULL_IS_TIGHT: Final[Steps] = ((0, "green"), (0.9, "orange"))
FULL_IS_FINE: Final[Steps] = ((0, "green"), (1.001, "red"))
"""For allocated memory: to fill a GPU is the purpose, to over-commit it is a fault."""
OVER_IS_BAD: Final[Steps] = ((0, "green"), (0.95, "orange"), (1.001, "red"))
HOT: Final[Steps] = ((0, "green"), (80, "orange"), (90, "red"))
"""Degrees Celsius: data-centre GPUs reduce their clocks from about 90 on."""


@dataclass(frozen=True, slots=True)
class Panel:
    """One query. ``unit`` is a Grafana unit, ``legend`` a Grafana template for the names of the lines.

    ``description`` says what is shown, in which unit, and what to do about a high value. ``top`` is the end
    of a bar, and the least end of an axis: a line may go beyond it.
    """

    title: str
    description: str
    expr: str
    unit: str
    legend: str = ""
    kind: Kind = "graph"
    steps: Steps = NEUTRAL
    top: float | None = None


@dataclass(frozen=True, slots=True)
class TableColumn:
    """One column of a table with numbers: an instant query whose series have the labels of the table."""

    title: str
    expr: str
    unit: str
    steps: Steps | None = None


@dataclass(frozen=True, slots=True)
class DashboardLink:
    """From a row of a table to another dashboard of the same clusters.

    It gets these variables from labels of the same name.
    """

    title: str
    uid: str
    variables: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TablePanel:
    """One line for each combination of ``labels`` (label → title of its column)."""

    title: str
    description: str
    labels: tuple[tuple[str, str], ...]
    columns: Sequence[TableColumn]
    link: DashboardLink | None = None


@dataclass(frozen=True, slots=True)
class PanelRow:
    """Panels below a title."""

    title: str
    panels: Sequence[Panel | TablePanel]


@dataclass(frozen=True, slots=True)
class Variable:
    """A template variable: the values of the label ``name`` in ``series``.

    All values are selected by default; if ``some``, the first one is, and "All" is not offered: a panel with
    a line for each GPU of a large cluster cannot be read.
    """

    name: str
    series: str
    some: bool = False


@dataclass(frozen=True, slots=True)
class Dashboard:
    """A dashboard; ``uid`` identifies it in Grafana. ``begin`` and ``refresh`` are Grafana's times."""

    uid: str
    title: str
    description: str
    choices: Sequence[Variable]
    rows: Sequence[PanelRow]
    begin: str = "now-1h"
    refresh: str = "30s"
