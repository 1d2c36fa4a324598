"""Annotations that bind writes and that are read, for every demand; and reading of arbitrary text."""

import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from gpushare import contract
from gpushare.model.annotations import (
    bind_annotations,
    claim_of,
    even_shares,
    parse_allocation,
    parse_assigned,
    shares_from_units,
)
from gpushare.model.cards import Card, format_cards, parse_cards
from gpushare.model.demand import Demand, Malformed
from gpushare.model.objects import node_of
from tests.property.strategies import json_values, rich_demands

CLAIMING = (contract.ANN_IDX, contract.ANN_POD, contract.ANN_ALLOCATION, contract.ANN_CORE_ALLOCATION)

texts = st.text(max_size=20) | json_values.map(json.dumps) | st.sampled_from(("0", "1", "4", "{}", "\ud800"))
allocations = st.dictionaries(
    st.sampled_from(("0", "1", "x")), st.dictionaries(st.sampled_from(("0", "1", "-1")), st.integers(-1, 9))
).map(json.dumps)


@st.composite
def chosen_cards(draw: st.DrawFn, wanted: Demand) -> tuple[int, ...]:
    found = draw(st.lists(st.integers(0, 15), min_size=wanted.cards, max_size=wanted.cards, unique=True))
    return tuple(found)


@given(rich_demands(), st.data())
def test_values_of_bind_are_read_back(wanted: Demand, data: st.DataObject) -> None:
    shares = even_shares(wanted, data.draw(chosen_cards(wanted)))
    assert claim_of(bind_annotations(wanted, shares, 16, 1), wanted) == shares


@given(rich_demands(), st.data())
def test_the_entries_of_a_gpu_add_up_to_its_reserved_units(wanted: Demand, data: st.DataObject) -> None:
    shares = even_shares(wanted, data.draw(chosen_cards(wanted)))
    written = bind_annotations(wanted, shares, 16, 1)
    assert parse_allocation(written[contract.ANN_ALLOCATION]) == {index: s.mem for index, s in shares}
    if wanted.core:
        found = parse_allocation(written[contract.ANN_CORE_ALLOCATION])
        assert found == {index: s.core for index, s in shares}


@given(rich_demands().filter(lambda wanted: wanted.cards == 1), st.data())
def test_an_edit_of_one_annotation_never_moves_a_pod_to_another_gpu(
    wanted: Demand, data: st.DataObject
) -> None:
    shares = even_shares(wanted, data.draw(chosen_cards(wanted)))
    edit = {data.draw(st.sampled_from(CLAIMING)): data.draw(texts | allocations)}
    assert claim_of(bind_annotations(wanted, shares, 16, 1) | edit, wanted) in (None, shares)


@given(rich_demands(), st.dictionaries(st.sampled_from(CLAIMING), texts | allocations))
def test_a_claim_is_void_or_worth_exactly_the_pods_limits(
    wanted: Demand, annotations: dict[str, str]
) -> None:
    claim = claim_of(annotations, wanted)
    if claim is not None:
        assert [share for _, share in claim] == [wanted.per_card] * wanted.cards
        assert len({index for index, _ in claim}) == wanted.cards


@given(st.dictionaries(st.integers(0, 20), st.integers(1, 9), min_size=1))
def test_units_per_gpu_survive_the_way_through_the_node_annotation(units: dict[int, int]) -> None:
    written = json.dumps({"uid": {"main": {str(index): n for index, n in units.items()}}})
    word = parse_assigned(written)
    assert word == {"uid": units}
    assert dict(shares_from_units(word["uid"])) == {index: (n, 0) for index, n in units.items()}


@given(texts)
@example('{"a":' * 50_000)
@example("[" * 50_000)
@example('[{"index":0,"units":1,"x":' + "[" * 50_000)
def test_nothing_that_can_be_written_into_an_annotation_raises(text: str) -> None:
    assert parse_allocation(text) is None or isinstance(parse_allocation(text), dict)
    assert parse_assigned(text) is None or isinstance(parse_assigned(text), dict)
    assert isinstance(parse_cards(text), tuple | Malformed)


@given(
    st.lists(
        st.builds(
            Card,
            st.integers(0, 20),
            st.integers(0, 2**40),
            st.text("GPU-0123456789abcdef", max_size=12),
            st.sampled_from(("Tesla T4", "", "卡")),
            st.integers(0, 2**40),
            st.none() | st.integers(0, 7),
            st.none() | st.integers(0, 20),
            healthy=st.booleans(),
            whole_gpu_pods=st.sampled_from(((), ("default/app",), ("default/a", "default/b"))),
        ),
        unique_by=lambda card: card.index,
        max_size=8,
    )
)
def test_gpus_are_read_back_as_written(cards: list[Card]) -> None:
    assert parse_cards(format_cards(tuple(cards))) == tuple(sorted(cards, key=lambda card: card.index))


@given(
    st.dictionaries(
        st.sampled_from(("aliyun.com/gpu-mem", "aliyun.com/gpu-count")),
        json_values | st.sampled_from(("0", "1", "2", "14", "28", "1E", "-1")),
    ),
    st.dictionaries(
        st.sampled_from(("gpushare", "cgpu", "ack.node.gpu.schedule", "ack.node.gpu.placement")),
        st.text(max_size=5) | st.sampled_from(("true", "false", "share", "mps", "default")),
    ),
    st.none() | texts,
    st.none() | texts,
)
def test_any_node_object_becomes_a_node(
    capacity: dict[str, Any], labels: dict[str, str], cards: str | None, assigned: str | None
) -> None:
    found = node_of("n", capacity=capacity, labels=labels, cards_text=cards, assigned_text=assigned)
    assert len(found.cards) <= 1024
    assert all(card.units >= 0 for card in found.cards)
    assert found.closed is None or found.closed
