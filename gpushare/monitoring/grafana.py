"""Dashboards as Grafana's JSON.

Grafana's SDK, a build dependency, belongs here: no daemon imports this module. Panels and queries are in
``panels`` and ``dashboards``.
"""

import json
from collections.abc import Iterable
from itertools import count
from math import ceil
from string import ascii_uppercase
from typing import Any, Final

from grafana_foundation_sdk.builders import (
    bargauge,
    heatmap,
    prometheus,
    stat,
    statushistory,
    table,
    timeseries,
)
from grafana_foundation_sdk.builders import dashboard as sdk
from grafana_foundation_sdk.builders.common import (
    GraphThresholdsStyleConfig,
    ReduceDataOptions,
    TableSortByFieldState,
    VizLegendOptions,
    VizTooltipOptions,
)
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import (
    BarGaugeDisplayMode,
    BigValueColorMode,
    DataSourceRef,
    GraphThresholdsStyleMode,
    LegendDisplayMode,
    TooltipDisplayMode,
    VisibilityMode,
    VizOrientation,
)
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DashboardLinkType,
    DataTransformerConfig,
    DynamicConfigValue,
    FieldColorModeId,
    Threshold,
    ThresholdsMode,
    VariableRefresh,
    VariableSort,
)
from grafana_foundation_sdk.models.heatmap import HeatmapColorMode
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from gpushare.monitoring.panels import (
    Color,
    Dashboard,
    DashboardLink,
    Kind,
    Panel,
    PanelRow,
    Steps,
    TableColumn,
    TablePanel,
    Variable,
)

_TAG: Final = "gpushare"
_SOURCE: Final = DataSourceRef(type_val="prometheus", uid="${datasource}")
_LEGEND: Final = VizLegendOptions().show_legend(show_legend=True).display_mode(LegendDisplayMode.LIST)
_TOOLTIP: Final = VizTooltipOptions().mode(TooltipDisplayMode.MULTI)
_LAST: Final = ReduceDataOptions().calcs(["lastNotNull"])
_WIDTH: Final = 24
"""The width of a dashboard."""
_SIZES: Final[dict[Kind, tuple[int, int]]] = {
    "graph": (8, 12),
    "number": (4, 4),
    "bars": (8, _WIDTH),
    "heat": (8, 12),
    "states": (8, 12),
}
"""Height and width of a panel; numbers fill the width."""
_INSTANT: Final = ("number", "bars")
"""Kinds that show the value of now: a query over the range, for every step of it, would be slow."""
_NUMBERS: Final = 6
"""Most numbers side by side: their titles are readable."""
_TABLE: Final = (9, _WIDTH)
_COLUMN: Final = 90
"""Least pixels of a column: by default not all columns of our tables fit on a screen."""
_COUNTS: Final = ("none", "ops")
"""Units of graphs whose axis would otherwise end at 100 if all values are 0."""
_DASHED: Final = GraphThresholdsStyleConfig().mode(GraphThresholdsStyleMode.DASHED)
_LINE: Final = 1000
"""Most characters of a line of JSON: a panel with one query has fewer, a table has more."""
_Plot = timeseries.Panel | stat.Panel | bargauge.Panel | heatmap.Panel | statushistory.Panel


def as_json(page: Dashboard) -> str:
    """Return the dashboard as JSON for import into Grafana."""
    board = sdk.Dashboard(page.title).uid(page.uid).tags([_TAG]).tooltip(DashboardCursorSync.CROSSHAIR)
    board.description(page.description).time(page.begin, "now").refresh(page.refresh)
    board.timezone("browser").editable().link(_others())
    for variable in _variables(page.choices):
        board.with_variable(variable)
    numbers = count(1)
    for row in page.rows:
        board.with_row(sdk.Row(row.title).id(next(numbers)))
        for panel in row.panels:
            made = _table(panel) if isinstance(panel, TablePanel) else _panel(panel, row)
            board.with_panel(made.id(next(numbers)))
    return _text(json.loads(JSONEncoder().encode(board.build())), "") + "\n"


def _text(value: Any, indent: str) -> str:
    """JSON with one panel a line, and one column of a table, so that a diff shows what has changed."""
    line = json.dumps(value, sort_keys=True, ensure_ascii=False)
    if len(line) <= _LINE or not isinstance(value, dict | list):
        return line
    within = f"{indent} "
    if isinstance(value, list):
        brackets, parts = "[]", [_text(each, within) for each in value]
    else:
        brackets, parts = "{}", [f"{json.dumps(key)}: {_text(value[key], within)}" for key in sorted(value)]
    return f",\n{within}".join(parts).join((f"{brackets[0]}\n{within}", f"\n{indent}{brackets[1]}"))


def _others() -> sdk.DashboardLink:
    """A menu with all dashboards of this project."""
    link = sdk.DashboardLink("gpushare").type(DashboardLinkType.DASHBOARDS).tags([_TAG])
    return link.as_dropdown(as_dropdown=True).include_vars(include_vars=True).keep_time(keep_time=True)


def _variables(choices: Iterable[Variable]) -> Iterable[sdk.DatasourceVariable | sdk.QueryVariable]:
    yield sdk.DatasourceVariable("datasource").label("Prometheus").type("prometheus")
    for choice in choices:
        query = f"label_values({choice.series}, {choice.name})"
        variable = sdk.QueryVariable(choice.name).query(query).datasource(_SOURCE)
        variable.refresh(VariableRefresh.ON_TIME_RANGE_CHANGED).sort(VariableSort.ALPHABETICAL_ASC)
        variable.multi(multi=True).include_all(include_all=not choice.some)
        yield variable if choice.some else variable.all_value(".*")


def _panel(panel: Panel, row: PanelRow) -> _Plot:
    made = _plot(panel)
    height, width = _SIZES[panel.kind]
    if panel.kind == "number":
        width = _number_width(len(row.panels))
    made.title(panel.title).description(panel.description).datasource(_SOURCE).height(height).span(width)
    made.unit("none" if panel.kind == "heat" else panel.unit).thresholds(_thresholds(panel.steps))
    return made.with_target(_plot_query(panel))


def _plot_query(panel: Panel) -> prometheus.Dataquery:
    query = _query(panel.expr, "A").legend_format(panel.legend)
    if panel.kind in _INSTANT:
        query.instant()
    return query.format(PromQueryFormat.HEATMAP) if panel.kind == "heat" else query


def _number_width(count: int) -> int:
    """The same for all numbers of a row, in one line or in several lines of the same length."""
    lines = ceil(count / _NUMBERS)
    return _WIDTH // ceil(count / lines)


def _graph(panel: Panel) -> timeseries.Panel:
    """Lines with a color each, from zero; thresholds are dashed lines."""
    by_line = sdk.FieldColor().mode(FieldColorModeId.PALETTE_CLASSIC)
    made = timeseries.Panel().legend(_LEGEND).tooltip(_TOOLTIP).color_scheme(by_line).axis_soft_min(0)
    top = 1 if panel.unit in _COUNTS else panel.top
    if top is not None:
        made.axis_soft_max(top)
    return made.thresholds_style(_DASHED) if len(panel.steps) > 1 else made


def _plot(panel: Panel) -> _Plot:
    by_value = sdk.FieldColor().mode(FieldColorModeId.THRESHOLDS)
    match panel.kind:
        case "graph":
            return _graph(panel)
        case "number":
            return (
                stat.Panel().color_scheme(by_value).color_mode(BigValueColorMode.VALUE).reduce_options(_LAST)
            )
        case "bars":
            bars = bargauge.Panel().color_scheme(by_value).reduce_options(_LAST)
            bars.orientation(VizOrientation.HORIZONTAL).display_mode(BarGaugeDisplayMode.BASIC)
            return bars.min(0) if panel.top is None else bars.min(0).max(panel.top)
        case "heat":
            return _heat(panel)
        case "states":
            rows = statushistory.Panel().color_scheme(by_value).show_value(VisibilityMode.AUTO)
            return rows.legend(_LEGEND).row_height(0.9)


def _heat(panel: Panel) -> heatmap.Panel:
    """Cells colored by their counts; the unit of the panel is that of the rows."""
    colors = heatmap.HeatmapColorOptions().mode(HeatmapColorMode.SCHEME).scheme("Blues").steps(64)
    made = heatmap.Panel().calculate(calculate=False).color(colors).show_legend()
    return made.y_axis(heatmap.YAxisConfig().unit(panel.unit))


def _query(expr: str, name: str) -> prometheus.Dataquery:
    return prometheus.Dataquery().expr(expr).ref_id(name).datasource(_SOURCE)


def _thresholds(steps: Steps) -> sdk.ThresholdsConfig:
    return (
        sdk.ThresholdsConfig()
        .mode(ThresholdsMode.ABSOLUTE)
        .steps([Threshold(*each) for each in _open(steps)])
    )


def _open(steps: Steps) -> Iterable[tuple[float | None, Color]]:
    """The first color has no lower bound."""
    (_, base), *others = steps
    return [(None, base), *others]


# --- tables -------------------------------------------------------------------------------------


def _table(shown: TablePanel) -> table.Panel:
    """One query for each column; Grafana merges the results by their labels."""
    height, width = _TABLE
    made = table.Panel().title(shown.title).description(shown.description)
    made.datasource(_SOURCE).height(height).span(width)
    made.min_width(_COLUMN).sort_by(
        [TableSortByFieldState().display_name(title) for _, title in shown.labels]
    )
    for name, column in _named(shown):
        made.with_target(_query(column.expr, name).instant().format(PromQueryFormat.TABLE))
        made.override_by_name(column.title, _column_style(column))
    made.with_transformation(DataTransformerConfig("merge", options={}))
    made.with_transformation(DataTransformerConfig("organize", options=_organized(shown)))
    if shown.link:
        _, title = shown.labels[0]
        made.override_by_name(title, [_links(shown.link)])
    return made


def _named(shown: TablePanel) -> Iterable[tuple[str, TableColumn]]:
    """The columns with the names of their queries."""
    return zip(ascii_uppercase, shown.columns, strict=False)


def _organized(shown: TablePanel) -> dict[str, Any]:
    """Order and titles of the columns, without the time."""
    labels = dict(shown.labels)
    values = {
        f"Value #{name}": each.title for name, each in zip(ascii_uppercase, shown.columns, strict=False)
    }
    order = [*labels, *values]
    return {
        "excludeByName": {name: True for name in ("Time", "cluster") if name not in labels},
        "indexByName": {name: position for position, name in enumerate(order)},
        "renameByName": {**labels, **values},
    }


def _column_style(column: TableColumn) -> list[DynamicConfigValue]:
    found = [DynamicConfigValue("unit", column.unit)]
    if column.steps:
        found += [
            DynamicConfigValue("thresholds", _thresholds(column.steps).build()),
            DynamicConfigValue("custom.cellOptions", {"type": "color-text"}),
        ]
    return found


def _links(link: DashboardLink) -> DynamicConfigValue:
    # The selected clusters: series of a single one have no label to read.
    variables = "&".join(f"var-{name}=${{__data.fields.{name}}}" for name in link.variables)
    url = f"/d/{link.uid}?${{cluster:queryparam}}&{variables}&${{__url_time_range}}"
    return DynamicConfigValue("links", [{"title": link.title, "url": url}])
