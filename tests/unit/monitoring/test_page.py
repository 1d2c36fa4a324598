"""Parsing of metrics pages: as prometheus_client renders them, and only the selected series."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Gauge, generate_latest

from gpushare.errors import InvalidRequest
from gpushare.monitoring.page import MetricSample, samples


@given(
    st.lists(st.tuples(st.text(), st.text()), unique=True, max_size=5),
    st.floats(allow_nan=False),
)
def test_every_label_value_is_read_back(rows: list[tuple[str, str]], number: float) -> None:
    registry = CollectorRegistry()
    gauge = Gauge("a_gauge", "A gauge.", ("x", "y"), registry=registry)
    for x, y in rows:
        gauge.labels(x, y).set(number)
    page = generate_latest(registry).decode()
    found = {(each.labels["x"], each.labels["y"]): each.number for each in samples(page, {"a_gauge"})}
    assert found == dict.fromkeys(rows, number)


def test_only_selected_series_are_read() -> None:
    page = '# HELP b B.\nb 1\nb_more{x="1"} 2\nc{x="1"} +Inf 1700000000\nnot a page at all {{{\n'
    assert list(samples(page, {"b", "c"})) == [
        MetricSample("b", {}, 1),
        MetricSample("c", {"x": "1"}, math.inf),
    ]


@pytest.mark.parametrize("line", ["b", "b x", 'b{x="1"}', 'b{x="1"} one'])
def test_a_line_without_a_number_is_an_error(line: str) -> None:
    with pytest.raises(InvalidRequest, match="not a metrics page"):
        list(samples(line, {"b"}))
