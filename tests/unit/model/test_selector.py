import pytest

from gpushare.errors import InvalidRequest
from gpushare.model.selector import parse_selector

LABELS = {"gpushare": "true", "zone": "b", "node-role.kubernetes.io/master": ""}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  ",
        "gpushare=true",
        "gpushare == true",
        "gpushare,zone",
        "!cgpu",
        "zone!=a",
        "cgpu!=true",
        "zone in (a, b),gpushare=true",
        "zone notin (a,c)",  # codespell:ignore notin
        "cgpu notin (true)",  # codespell:ignore notin
        "node-role.kubernetes.io/master",
        "node-role.kubernetes.io/master=",
    ],
)
def test_a_selector_that_matches(text: str) -> None:
    assert parse_selector(text)(LABELS)


@pytest.mark.parametrize(
    "text",
    [
        "gpushare=false",
        "cgpu",
        "!gpushare",
        "zone!=b",
        "zone in (a,c)",
        "zone notin (b)",  # codespell:ignore notin
        "gpushare=true,zone=a",
    ],
)
def test_a_selector_that_does_not_match(text: str) -> None:
    assert not parse_selector(text)(LABELS)


@pytest.mark.parametrize("text", ["=true", "a=b=c", "a in b", "a in (b", "a,,b", "a>1", "a b", ","])
def test_an_invalid_selector_is_rejected(text: str) -> None:
    with pytest.raises(InvalidRequest, match="selector"):
        parse_selector(text)
