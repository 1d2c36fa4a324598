"""The collection, without msgspec, reads the annotation of a node's GPUs as the extender does."""

import json

import pytest

from ansible_collections.gpushare.nodes.plugins.plugin_utils.validation import published_cards
from gpushare.model.cards import Card, format_cards, parse_cards
from gpushare.model.demand import Malformed

VALID = (
    "[]",
    '[{"index": 1, "units": 14}]',
    '[{"index": 1, "units": 14, "mig": {"profile": "1g"}}]',
    format_cards((Card(0, 14, "GPU-1", "Tesla T4", 15079, 0, 1, "0:7.0"), Card(3, 0, healthy=False))),
)
INVALID = (
    "",
    "junk",
    "[",
    "[1]",
    "14",
    "null",
    '{"0": 14}',
    "[" * 100_000,
    *(
        json.dumps([{"index": index, "units": units}])
        for index, units in [("0", 14), (0, True), (0, 14.5), (0, 14.0), (0, None), (-1, 14), (0, -14)]
    ),
    '[{"index": 0}]',
    '[{"units": 14}]',
    '[{"index": 0, "units": 14}, {"index": 0, "units": 15}]',
)


@pytest.mark.parametrize("text", VALID)
def test_both_find_the_same_number_of_gpus(text: str) -> None:
    cards = parse_cards(text)
    assert not isinstance(cards, Malformed)
    assert published_cards(text) == len(cards)


@pytest.mark.parametrize("text", INVALID, ids=lambda text: text[:40])
def test_both_reject_an_invalid_list_of_gpus(text: str) -> None:
    assert isinstance(parse_cards(text), Malformed)
    assert published_cards(text) is None
