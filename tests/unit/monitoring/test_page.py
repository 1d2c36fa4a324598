import pytest

from gpushare.errors import InvalidRequest
from gpushare.monitoring.page import Sample, read_page

PAGE = """# TYPE a gauge
a{x="1"} 2.5
# TYPE b_total counter
b_total{y="é"} 7
# TYPE c histogram
c_bucket{le="1"} 1
c_bucket{le="+Inf"} 1
c_count 1
c_sum 1
"""


def test_a_page_is_read_by_the_catalogues_names() -> None:
    assert read_page(PAGE) == {"a": [Sample({"x": "1"}, 2.5)], "b": [Sample({"y": "é"}, 7.0)]}


def test_series_of_an_unknown_type_are_all_read() -> None:
    assert read_page('a{x="1"} 1\na{x="2"} 2\n') == {"a": [Sample({"x": "1"}, 1.0), Sample({"x": "2"}, 2.0)]}


@pytest.mark.parametrize("text", ["<html>", 'a{x="1" 2', "a one"])
def test_what_is_no_page_is_told(text: str) -> None:
    with pytest.raises(InvalidRequest, match="no page of metrics"):
        read_page(text)
