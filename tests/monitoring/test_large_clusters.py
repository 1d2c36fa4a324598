"""Dashboards of 200 nodes with 8 GPUs each, in Prometheus: no panel returns more than a reader can see."""

import json
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio

from tests.support.builders.gpu_series import large, page
from tests.support.fixtures.scraped_series import asked, metrics_site, scraped, serving
from tools.monitoring_files import FOLDER

pytestmark = [pytest.mark.needs("prometheus"), pytest.mark.asyncio(loop_scope="module")]

NODES, CARDS = 200, 8
MOST = 50
READABLE_LINES = 20
EVERY_S = 10
"""Seconds: a scrape and the rules take one."""
BOARDS = [json.loads(path.read_text()) for path in sorted((FOLDER / "dashboards").iterdir())]


@dataclass(frozen=True)
class Query:
    """A query of a panel; ``selected`` are the variables of its dashboard."""

    text: str
    kind: str
    instant: bool
    variables: list[dict[str, Any]]


def queries() -> Iterator[tuple[str, Query]]:
    for board in BOARDS:
        variables = [each for each in board["templating"]["list"] if each["type"] == "query"]
        for panel in board["panels"]:
            for target in panel.get("targets", ()):
                name = f"{board['title']}: {panel['title']} {target['refId']}"
                instant = target.get("instant", False)
                yield name, Query(target["expr"], panel["type"], instant, variables)


QUERIES = dict(queries())


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def prometheus() -> AsyncIterator[str]:
    fleet = large(NODES, CARDS)
    start = time.time()
    text = page(start, fleet)

    def now() -> str:
        """Gauges stay, and a page of this size takes a second to make."""
        return text

    known = f"count(count_over_time(namespace:gpushare_gpus_allocated:sum[1m]) >= 3) == {NODES}"
    async with serving(metrics_site(now)) as site, scraped(site, known, 120, every_s=EVERY_S) as url:
        yield url


async def selection(prometheus: str, variable: dict[str, Any]) -> str:
    """What Grafana selects when the dashboard is opened: all if offered, and else the first value."""
    if variable.get("includeAll"):
        return str(variable["allValue"])
    series, _, label = variable["query"].removeprefix("label_values(").removesuffix(")").rpartition(", ")
    found = await asked(prometheus, series.replace("$cluster", ".*"))
    return min(str(each["metric"][label]) for each in found)


async def opened(prometheus: str, query: Query) -> list[dict[str, Any]]:
    """The series of a query as the dashboard asks when it is opened."""
    text = query.text.replace("$__rate_interval", "1m").replace("$__range", "10m")
    text = text.replace("$__interval", "1s").replace(":5m]", ":1s]")
    for variable in query.variables:
        text = text.replace(f"${variable['name']}", await selection(prometheus, variable))
    now = time.time()
    span = {} if query.instant else {"start": f"{now - 5:.0f}", "end": f"{now:.0f}", "step": "1"}
    return await asked(prometheus, text, **span)


@pytest.mark.parametrize("name", QUERIES)
async def test_a_panel_can_be_read(prometheus: str, name: str) -> None:
    found = await opened(prometheus, QUERIES[name])
    assert 1 <= len(found) <= (MOST if QUERIES[name].kind == "table" else READABLE_LINES)


async def test_the_cluster_has_as_many_gpus_and_pods_as_said(prometheus: str) -> None:
    assert len(await asked(prometheus, "gpushare_card_info")) == NODES * CARDS == 1600
    assert len(await asked(prometheus, "pod:gpushare_memory_allocated_bytes:sum")) == 3 * 1600


async def test_heat_maps_count_every_gpu(prometheus: str) -> None:
    for name, query in QUERIES.items():
        if query.kind == "heatmap":
            found = {each["metric"]["le"]: each["values"][-1][1] for each in await opened(prometheus, query)}
            assert found["+Inf"] == "1600", name
