import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare.deviceplugin.core.device_ids import (
    MESSAGE_LIMIT,
    card_of,
    cards_by_name,
    devices_of,
    namer_for,
    preferred,
)
from gpushare.deviceplugin.kubelet.endpoint import listing
from gpushare.model.cards import Card
from gpushare.model.demand import Malformed
from gpushare.model.devices import long_id, short_id
from tests.support.builders.gpu_pods import cards

UUID = "GPU-8f1c1d1e-6d0a-4a55-9d57-1b1f3c1d2e4f"


def machine(count: int, units: int) -> tuple[Card, ...]:
    return tuple(Card(i, units, f"{UUID[:-1]}{i}", numa=i % 2) for i in range(count))


def test_ids_have_the_form_of_the_aliyun_plugin() -> None:
    assert long_id(Card(0, 14, UUID), 13) == f"{UUID}-_-13"


def test_eight_gpus_of_141_gib_keep_the_long_ids() -> None:
    assert namer_for(machine(8, 141)) is long_id


def test_eight_gpus_of_16276_mib_get_short_ids() -> None:
    assert namer_for(machine(8, 16276)) is short_id


def test_devices_that_exceed_a_message_are_rejected_with_a_unit_that_fits() -> None:
    found = namer_for(machine(8, 144_000))
    assert isinstance(found, Malformed)
    assert "--memory-unit=GiB" in found.problem
    assert "1152000 devices" in found.problem


@pytest.mark.parametrize(("count", "units"), [(1, 14), (8, 141), (8, 8_000), (4, 16_276)])
def test_no_list_is_larger_than_computed(count: int, units: int) -> None:
    found = machine(count, units)
    namer = namer_for(found)
    assert not isinstance(namer, Malformed)
    broken = tuple(Card(c.index, c.units, c.uuid, numa=c.numa, healthy=False) for c in found)
    assert listing(devices_of(broken, namer, lambda card: card.units)).ByteSize() <= MESSAGE_LIMIT


@pytest.mark.parametrize("namer", [long_id, short_id])
def test_an_id_names_its_gpu(namer) -> None:  # type: ignore[no-untyped-def]
    found = machine(3, 4)
    assert [card_of(namer(card, 3), cards_by_name(found)) for card in found] == list(found)


@pytest.mark.parametrize("odd", ["", "GPU-unknown-_-1", "9-1", "x", "-_-", f"{UUID}--3"])
def test_an_id_of_another_node_names_no_gpu(odd: str) -> None:
    assert card_of(odd, cards_by_name(machine(3, 4))) is None


def test_a_broken_gpu_has_unhealthy_devices_only() -> None:
    found = devices_of(cards(2, 2, broken=(1,)), long_id, lambda card: card.units)
    assert [(device.id, device.healthy) for device in found] == [
        ("GPU-0-_-0", True),
        ("GPU-0-_-1", True),
        ("GPU-1-_-0", False),
        ("GPU-1-_-1", False),
    ]


def test_a_cordoned_gpu_has_healthy_devices_for_its_running_pods() -> None:
    found = devices_of(cards(1, 1, broken=(0, 1)), long_id, lambda card: card.units, frozenset({1}))
    assert [device.healthy for device in found] == [False, True]


def ids_of(*found: Card) -> list[str]:
    return [long_id(card, n) for card in found for n in range(card.units)]


def test_a_container_gets_the_units_of_the_gpu_it_belongs_on() -> None:
    found = cards(4, 4)
    assert preferred(ids_of(*found), (), 3, (1,), found) == ["GPU-1-_-0", "GPU-1-_-1", "GPU-1-_-2"]


def test_several_gpus_have_equal_units() -> None:
    found = cards(4, 4, 4)
    chosen = preferred(ids_of(*found), (), 4, (0, 2), found)
    assert sorted(chosen) == ["GPU-0-_-0", "GPU-0-_-1", "GPU-2-_-0", "GPU-2-_-1"]


def test_required_ids_count_for_their_gpu() -> None:
    found = cards(4, 4)
    chosen = preferred(ids_of(*found), ("GPU-1-_-3",), 2, (1,), found)
    assert sorted(chosen) == ["GPU-1-_-0", "GPU-1-_-3"]


def test_numbers_are_taken_in_their_order() -> None:
    found = cards(12)
    assert preferred(ids_of(*found)[::-1], (), 11, (0,), found)[-1] == "GPU-0-_-10"


def test_without_a_preference_all_ids_are_of_one_gpu() -> None:
    found = cards(2, 5)
    assert all(each.startswith("GPU-1") for each in preferred(ids_of(*found), (), 4, (), found))


@given(st.data())
def test_the_kubelet_gets_exactly_as_many_as_it_asked_for(data: st.DataObject) -> None:
    found = cards(5, 3, 4)
    available = data.draw(st.lists(st.sampled_from(ids_of(*found)), unique=True, min_size=1))
    size = data.draw(st.integers(1, len(available)))
    must = data.draw(st.lists(st.sampled_from(available), unique=True, max_size=size))
    wanted = data.draw(st.sampled_from([(), (0,), (1, 2), (7,), (0, 0)]))
    chosen = preferred(available, must, size, wanted, found)
    assert len(chosen) == len(set(chosen)) == size
    assert set(must) <= set(chosen) <= set(available)
