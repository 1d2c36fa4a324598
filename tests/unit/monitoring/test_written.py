"""Rules, alerts and dashboards: committed as generated, with existing metrics and runbooks."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpushare.contract import RUNBOOKS
from gpushare.monitoring import adapter, catalogue
from gpushare.monitoring.alerts import ALERTS, Alert
from gpushare.monitoring.dashboards import PAGES
from gpushare.monitoring.dashboards.cluster import CLUSTER
from gpushare.monitoring.dashboards.node import NODE
from gpushare.monitoring.dashboards.tenants import TENANTS
from gpushare.monitoring.panels import Dashboard, TablePanel
from gpushare.monitoring.rules import RULES
from gpushare.monitoring.runbooks import runbooks
from tools.monitoring_files import FOLDER, PACKAGED, descriptions, packaged, texts

ROOT = Path(__file__).parents[3]


def queries(page: Dashboard) -> Iterator[tuple[str, str]]:
    """Title and query of each panel, and of each column of a table."""
    for panel in (panel for row in page.rows for panel in row.panels):
        if isinstance(panel, TablePanel):
            yield from ((f"{panel.title}, {each.title}", each.expr) for each in panel.columns)
        else:
            yield panel.title, panel.expr


def board_of(page: Dashboard) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(texts()[f"dashboards/{page.uid.replace('gpushare', 'gpu')}.json"])
    return found


EXPORTED = {
    f"{each}_bucket" if each.kind == "histogram" else str(each)
    for each in catalogue.ALL
    if each not in catalogue.DERIVED
}
RECORDS = [rule.record for rule in RULES]
PROMETHEUS_OWN = {"up", "ALERTS"}
KUBE_STATE_METRICS = {"kube_resourcequota"}
QUERIES = {
    **{rule.record: rule.expr for rule in RULES},
    **{alert.name: alert.expr for alert in ALERTS},
    **{f"{page.title}: {title}": expr for page in PAGES for title, expr in queries(page)},
    **{f"{page.title}: ${choice.name}": choice.series for page in PAGES for choice in page.choices},
}
NO_SERIES = {
    *(
        "sum",
        "min",
        "max",
        "avg",
        "abs",
        "topk",
        "absent",
        "group",
        "count",
        "vector",
        "rate",
        "increase",
        "time",
    ),
    "clamp_min",
    "end",
    "histogram_quantile",
    "label_replace",
    "Inf",
    *(
        "max_over_time",
        "last_over_time",
        "sum_over_time",
        "by",
        "on",
        "group_left",
        "or",
        "and",
        "unless",
        "offset",
        "bool",
    ),
}

ACK_RULES = """
- metricsQuery: avg(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)
  resources:
    overrides:
      NodeName:
        resource: node
  seriesQuery: DCGM_FI_DEV_GPU_UTIL{}
- metricsQuery: avg(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)
  resources:
    overrides:
      NamespaceName:
        resource: namespace
      NodeName:
        resource: node
      PodName:
        resource: pod
  seriesQuery: DCGM_CUSTOM_PROCESS_SM_UTIL{}
- metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)
  resources:
    overrides:
      NodeName:
        resource: node
  seriesQuery: DCGM_FI_DEV_FB_USED{}
- metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)
  resources:
    overrides:
      NamespaceName:
        resource: namespace
      NodeName:
        resource: node
      PodName:
        resource: pod
  seriesQuery: DCGM_CUSTOM_PROCESS_MEM_USED{}
- metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>) /
    sum(DCGM_CUSTOM_CONTAINER_MEM_ALLOCATED{}) by (<<.GroupBy>>)
  name:
    as: ${1}_GPU_MEM_USED_RATIO
    matches: ^(.*)_MEM_USED
  resources:
    overrides:
      NamespaceName:
        resource: namespace
      PodName:
        resource: pod
  seriesQuery: DCGM_CUSTOM_PROCESS_MEM_USED{NamespaceName!="",PodName!=""}
"""
"""The rules of the autoscaling page of the ACK documentation, without its comments."""


def series_in(expr: str) -> set[str]:
    """The names of series in a query: all words but PromQL's, durations, and those of labels."""
    bare = re.sub(
        r'"[^"]*"|\b\de-\d\b|\$\w+|\{[^}]*\}|\[[^]]*\]|\b(by|on) \([^)]*\)|\b\d+[smhd]\b', " ", expr
    )
    return set(re.findall(r"[A-Za-z_][\w:]*", bare)) - NO_SERIES


@pytest.mark.parametrize("name", texts())
def test_committed_files_match_the_generator(name: str) -> None:
    assert (FOLDER / name).read_text() == texts()[name], "run make generate"


def test_every_committed_dashboard_is_generated() -> None:
    assert {f"dashboards/{path.name}" for path in (FOLDER / "dashboards").iterdir()} <= set(texts())


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_reads_series_that_exist(name: str) -> None:
    read = series_in(QUERIES[name])
    assert read
    assert read <= EXPORTED | set(RECORDS) | PROMETHEUS_OWN | KUBE_STATE_METRICS


def test_series_are_found_in_a_query() -> None:
    assert series_in('sum by (node) (no_such{a="b"}[5m]) / up') == {"no_such", "up"}


def test_a_rule_reads_only_earlier_rules() -> None:
    for position, rule in enumerate(RULES):
        assert series_in(rule.expr) & set(RECORDS) <= set(RECORDS[:position]), rule.record


def test_no_series_is_recorded_twice() -> None:
    assert len(set(RECORDS)) == len(RECORDS)


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_an_alert_has_a_runbook(alert: Alert) -> None:
    headings = re.findall(r"^## (.+)$", (ROOT / RUNBOOKS).read_text(), re.MULTILINE)
    assert alert.anchor in {heading.lower() for heading in headings}


def test_an_alert_names_the_command_that_prints_its_runbook() -> None:
    for rule in written_alerts((FOLDER / "alerts.yaml").read_text()):
        assert rule["annotations"]["runbook"] == f"kubectl gpushare runbook {rule['alert']}"
        assert "runbook_url" not in rule["annotations"]


def test_the_description_of_an_alert_stands_alone() -> None:
    """Whoever is woken by it has no other alert and no page at hand."""
    names = {alert.name for alert in ALERTS}
    for rule in written_alerts((FOLDER / "alerts.yaml").read_text()):
        description = rule["annotations"]["description"]
        assert description.endswith(".")
        assert not re.search(r"[`\n*{}]|\]\(", description), description
        assert not names & set(re.findall(r"\w+", description)), description
        assert not re.search(r"\b(As there|as there|this table|this page|see above|above)\b", description)


def test_every_part_of_a_runbook_stands_alone() -> None:
    for name, text in runbooks().items():
        parts = re.findall(
            r"^(?:Meaning|What follows|Look|Do)\.(.*?)(?=^\w[\w ]*\. |\Z)", text, re.MULTILINE | re.DOTALL
        )
        assert len(parts) >= 4, name
        assert not re.search(r"^ As (there|for|Gpu)", "\n".join(parts), re.MULTILINE), name


def test_the_package_has_the_page_of_the_runbooks() -> None:
    assert PACKAGED.read_text() == packaged()
    assert list(runbooks()) == [alert.name for alert in ALERTS]


def written_alerts(text: str) -> list[dict[str, Any]]:
    (group,) = yaml.safe_load(text)["groups"]
    rules: list[dict[str, Any]] = group["rules"]
    return rules


def test_a_runbook_without_a_meaning_is_an_error() -> None:
    with pytest.raises(ValueError, match="the runbook GpuShareX has no paragraph What follows"):
        descriptions("# Runbooks\n\n## GpuShareX\n\n**Meaning.** It is down.\n")


def test_a_runbook_has_an_alert() -> None:
    page = (ROOT / RUNBOOKS).read_text()
    assert re.findall(r"^## (GpuShare\w+)$", page, re.MULTILINE) == [alert.name for alert in ALERTS]


def test_the_adapter_rules_are_those_of_the_ack_documentation() -> None:
    assert adapter.document()["rules"] == yaml.safe_load(ACK_RULES)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.title)
def test_a_dashboard_has_a_unique_uid_and_the_selected_data_source(page: Dashboard) -> None:
    assert len({each.uid for each in PAGES}) == len(PAGES)
    board = board_of(page)
    assert board["uid"] == page.uid
    used = {name for _, expr in queries(page) for name in re.findall(r'"\$(\w+)"', expr)}
    assert used == {choice.name for choice in page.choices}
    assert {each["name"] for each in board["templating"]["list"]} == {"datasource", *used}
    panels = [panel for panel in board["panels"] if panel["type"] != "row"]
    assert {panel["datasource"]["uid"] for panel in panels} == {"${datasource}"}
    assert {each["datasource"]["uid"] for panel in panels for each in panel["targets"]} == {"${datasource}"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.title)
def test_every_query_is_of_the_selected_clusters(page: Dashboard) -> None:
    for title, expr in queries(page):
        assert 'cluster=~"$cluster"' in expr, title


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.title)
def test_every_panel_says_what_it_shows_in_sentences(page: Dashboard) -> None:
    board = board_of(page)
    texts = {each["title"]: each.get("description", "") for each in board["panels"] if each["type"] != "row"}
    texts[page.title] = board["description"]
    for title, text in texts.items():
        assert text.endswith("."), title
        assert 20 <= len(text) <= 500, title
        assert text != title


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.title)
def test_a_panel_with_units_says_how_large_one_is(page: Dashboard) -> None:
    for panel in (panel for row in page.rows for panel in row.panels):
        if re.search(r"\bunits\b", panel.title):
            assert "A unit is one GiB" in panel.description, panel.title


def test_one_node_is_selected_by_default() -> None:
    (variable,) = [each for each in board_of(NODE)["templating"]["list"] if each["name"] == "node"]
    assert variable["multi"]
    # Grafana selects "All" by default if it offers it, and else the first value.
    assert not variable.get("includeAll", False)
    assert "allValue" not in variable


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.title)
def test_no_query_reads_each_sample_of_the_range(page: Dashboard) -> None:
    # Thirty days have 17 million for 100 namespaces; Prometheus refuses a query with more than 50 million.
    assert not any("[$__range]" in expr for _, expr in queries(page))


def test_the_dashboard_of_tenants_opens_with_thirty_days() -> None:
    board = board_of(TENANTS)
    assert board["time"] == {"from": "now-30d", "to": "now"}
    assert not board.get("refresh")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.title)
def test_a_sum_over_the_whole_range_is_asked_once(page: Dashboard) -> None:
    targets = [each for panel in board_of(page)["panels"] for each in panel.get("targets", ())]
    for target in targets:
        if "sum_over_time(" in target["expr"]:
            once = "@ end()" in target["expr"]  # Prometheus computes it once for all steps.
            assert once or target["instant"], target["expr"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.title)
def test_panels_do_not_overlap_and_have_numbers(page: Dashboard) -> None:
    board = board_of(page)
    taken = [
        (x, y)
        for place in (panel["gridPos"] for panel in board["panels"])
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(taken)) == len(taken)
    assert max(x for x, _ in taken) < 24
    numbers = [panel["id"] for panel in board["panels"]]
    assert len(set(numbers)) == len(numbers)


def color(page: Dashboard, title: str, value: float) -> str:
    """The color that Grafana gives a value: that of the last threshold that is not above it."""
    (panel,) = [each for each in board_of(page)["panels"] if each["title"] == title]
    steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
    colors: list[str] = [each["color"] for each in steps if each["value"] is None or each["value"] <= value]
    return colors[-1]


def test_a_healthy_cluster_is_green_and_one_overcommitted_gpu_is_red() -> None:
    assert color(CLUSTER, "Over-committed GPUs", 0) == "green"
    assert color(CLUSTER, "Over-committed GPUs", 1) == "red"
    assert [color(CLUSTER, "Leaders of the extender", leaders) for leaders in range(3)] == [
        "red",
        "green",
        "red",
    ]
    assert {color(CLUSTER, title, 80) for title in ("Free units", "Total GPU memory")} == {"blue"}


def test_a_full_gpu_is_green_and_an_overcommitted_one_is_red() -> None:
    title = "Memory allocated / total"
    assert [color(NODE, title, value) for value in (0, 0.96, 1.0, 1.07)] == ["green", "green", "green", "red"]


def test_the_numbers_of_a_row_share_its_width() -> None:
    places = [panel["gridPos"] for panel in board_of(CLUSTER)["panels"] if panel["type"] == "stat"]
    for y in {place["y"] for place in places}:
        assert sum(place["w"] for place in places if place["y"] == y) == 24


def graphs() -> list[dict[str, Any]]:
    boards = [board_of(page) for page in PAGES]
    return [panel for board in boards for panel in board["panels"] if panel["type"] == "timeseries"]


def test_the_lines_of_a_graph_have_a_legend_and_a_color_each() -> None:
    for graph in graphs():
        assert graph["targets"][0]["legendFormat"], graph["title"]
        assert graph["fieldConfig"]["defaults"]["color"]["mode"] == "palette-classic", graph["title"]


def test_thresholds_of_a_graph_are_visible_and_no_value_is_cut_off() -> None:
    for graph in graphs():
        found = graph["fieldConfig"]["defaults"]
        dashed = found["custom"].get("thresholdsStyle", {}).get("mode") == "dashed"
        assert dashed == (len(found["thresholds"]["steps"]) > 1), graph["title"]
        assert "max" not in found, graph["title"]


def test_a_link_of_a_table_leads_to_a_dashboard_with_these_variables() -> None:
    choices = {each.uid: {choice.name for choice in each.choices} for each in PAGES}
    panels = [panel for page in PAGES for row in page.rows for panel in row.panels]
    linked = [panel for panel in panels if isinstance(panel, TablePanel) and panel.link]
    assert len(linked) == 3
    for each in linked:
        assert each.link
        assert {"cluster", *each.link.variables} <= choices[each.link.uid]
        assert set(each.link.variables) <= set(dict(each.labels))
