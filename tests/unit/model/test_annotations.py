"""The annotations that publish a placement: written at bind, trusted only if all of them agree."""

import json

import pytest

from gpushare import contract
from gpushare.model.annotations import (
    Shares,
    bind_annotations,
    claim_of,
    even_shares,
    known_shares,
    parse_allocation,
    parse_assigned,
    shares_from_units,
)
from gpushare.model.demand import Amount, ContainerDemand, Demand, demand_of
from tests.support.builders.scheduling import demand, init, main, sidecar, sound

NOW = 1_600_000_000_000_000_000


def of(*containers: ContainerDemand, cards: str | None = None) -> Demand:
    return sound(demand_of(containers, cards))


def written(wanted: Demand, *cards: int, size: int = 14) -> dict[str, str]:
    return bind_annotations(wanted, even_shares(wanted, cards), size, NOW)


def allocation(wanted: Demand, *cards: int) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = json.loads(written(wanted, *cards)[contract.ANN_ALLOCATION])
    return found


def test_bind_writes_what_the_aliyun_pair_reads() -> None:
    assert written(demand(4), 1, size=15) == {
        "ALIYUN_COM_GPU_MEM_IDX": "1",
        "ALIYUN_COM_GPU_MEM_DEV": "15",
        "ALIYUN_COM_GPU_MEM_POD": "4",
        "ALIYUN_COM_GPU_MEM_ASSIGNED": "false",
        "ALIYUN_COM_GPU_MEM_ASSUME_TIME": "1600000000000000000",
        "scheduler.framework.gpushare.allocation": '{"0":{"1":4}}',
    }


def test_every_container_gets_its_units() -> None:
    assert allocation(of(main(3), main(0), main(4)), 1) == {"0": {"1": 3}, "2": {"1": 4}}


def test_several_gpus_carry_equal_units_and_the_index_is_the_lowest() -> None:
    wanted = demand(8, cards=2)
    assert allocation(wanted, 3, 1) == {"0": {"1": 4, "3": 4}}
    assert written(wanted, 3, 1)[contract.ANN_IDX] == "1"
    assert written(wanted, 3, 1)[contract.ANN_POD] == "8"


def test_units_beyond_the_containers_are_one_entry_after_them() -> None:
    assert allocation(of(init(9), sidecar(1), main(3), main(4)), 0) == {
        "0": {"0": 3},
        "1": {"0": 4},
        "2": {"0": 2},
    }


def test_compute_is_written_only_where_it_was_requested() -> None:
    assert contract.ANN_CORE_ALLOCATION not in written(demand(4), 0)
    assert json.loads(written(demand(4, core=30), 2)[contract.ANN_CORE_ALLOCATION]) == {"0": {"2": 30}}


def test_annotations_of_the_aliyun_extender_without_an_allocation_are_read() -> None:
    assert claim_of({contract.ANN_IDX: "1", contract.ANN_POD: "4"}, demand(4)) == ((1, Amount(4)),)


@pytest.mark.parametrize("cards", [(1,), (1, 2)])
def test_an_allocation_alone_is_what_acks_own_scheduler_writes(cards: tuple[int, ...]) -> None:
    wanted = demand(8, cards=len(cards))
    alone = {contract.ANN_ALLOCATION: written(wanted, *cards)[contract.ANN_ALLOCATION]}
    assert claim_of(alone, wanted) == even_shares(wanted, cards)
    assert claim_of(alone, demand(4)) is None


def test_annotations_written_late_in_the_life_of_a_pod_are_trusted() -> None:
    annotations = written(demand(4), 1) | {
        contract.ANN_ASSIGNED: "true",
        contract.ANN_ASSUME_TIME: "1600000000000000009",
    }
    assert claim_of(annotations, demand(4)) == ((1, Amount(4)),)


def test_a_pod_without_annotations_claims_nothing() -> None:
    assert claim_of({}, demand(4)) is None


def test_without_an_allocation_the_second_gpu_is_unknown() -> None:
    assert claim_of({contract.ANN_IDX: "1", contract.ANN_POD: "8"}, demand(8, cards=2)) is None


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (contract.ANN_IDX, "1"),
        (contract.ANN_IDX, ""),
        (contract.ANN_IDX, "-1"),
        (contract.ANN_IDX, "zero"),
        (contract.ANN_POD, "0"),
        (contract.ANN_POD, "4"),
        (contract.ANN_POD, "08"),
        (contract.ANN_POD, ""),
        (contract.ANN_ALLOCATION, '{"0":{"1":8}}'),
        (contract.ANN_ALLOCATION, '{"0":{"0":7}}'),
        (contract.ANN_ALLOCATION, '{"0":{"0":4}}'),
        (contract.ANN_ALLOCATION, '{"0":{"0":4,"1":4}}'),
        (contract.ANN_ALLOCATION, '{"0":{"0":8,"1":0}}'),
        (contract.ANN_ALLOCATION, '{"0":{"0":9},"1":{"0":-1}}'),
        (contract.ANN_ALLOCATION, "{}"),
        (contract.ANN_ALLOCATION, ""),
        (contract.ANN_ALLOCATION, "junk"),
        (contract.ANN_CORE_ALLOCATION, '{"0":{"1":20}}'),
        (contract.ANN_CORE_ALLOCATION, '{"0":{"0":15}}'),
        (contract.ANN_CORE_ALLOCATION, "{}"),
        (contract.ANN_CORE_ALLOCATION, "junk"),
    ],
)
def test_one_annotation_that_contradicts_the_others_voids_the_claim(key: str, text: str) -> None:
    wanted = demand(8, core=20)
    annotations = written(wanted, 0)
    assert claim_of(annotations, wanted) is not None
    assert claim_of(annotations | {key: text}, wanted) is None


@pytest.mark.parametrize("key", [contract.ANN_IDX, contract.ANN_POD])
def test_an_index_and_an_amount_need_each_other(key: str) -> None:
    annotations = written(demand(8), 0)
    del annotations[key]
    assert claim_of(annotations, demand(8)) is None


@pytest.mark.parametrize(
    "text", ['{"0":{"0":4}}', '{"0":{"0":4,"1":4,"2":4}}', '{"0":{"0":8}}', '{"0":{"0":5,"1":3}}']
)
def test_a_pod_on_several_gpus_must_name_all_of_them_with_equal_units(text: str) -> None:
    wanted = demand(8, cards=2)
    assert claim_of(written(wanted, 0, 1) | {contract.ANN_ALLOCATION: text}, wanted) is None


@pytest.mark.parametrize("text", ['{"0":{"0":20}}', "x"])
def test_compute_in_the_annotations_of_a_pod_that_requests_none_is_of_its_owner_and_ignored(
    text: str,
) -> None:
    annotations = written(demand(8), 0)
    claim = claim_of(annotations, demand(8))
    assert claim is not None
    assert claim_of(annotations | {contract.ANN_CORE_ALLOCATION: text}, demand(8)) == claim


def test_annotations_of_a_larger_pod_are_no_claim_of_a_smaller_one() -> None:
    assert claim_of(written(demand(8), 0), demand(4)) is None
    assert claim_of(written(demand(8, cards=2), 0, 1), demand(8)) is None


def test_an_allocation_adds_up_over_the_containers() -> None:
    assert parse_allocation('{"0":{"0":3,"1":3},"2":{"0":1}}') == {0: 4, 1: 3}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "4",
        '{"0":4}',
        '{"0":{"0":"4"}}',
        '{"0":{"0":4.5}}',
        '{"0":{"0":true}}',
        '{"0":{"-1":4}}',
        '{"0":{"x":4}}',
        '{"0":{"0":-4}}',
        '{"0":{"0":' + "9" * 5000 + "}}",
        "[" * 100_000,
        '{"a":' * 100_000,
        "\ud800",
    ],
)
def test_an_invalid_allocation_is_none(text: str) -> None:
    assert parse_allocation(text) is None
    assert parse_assigned(f'{{"uid":{text}}}') is None


def test_the_agents_annotation_adds_up_over_the_containers_of_each_pod() -> None:
    assert parse_assigned('{"a":{"main":{"0":3},"side":{"0":1}},"b":{"main":{"1":2,"2":2}}}') == {
        "a": {0: 4},
        "b": {1: 2, 2: 2},
    }


@pytest.mark.parametrize("text", ["", "null", "[]", '{"a":{"0":4}}', '{"a":{"main":{"zero":4}}}', "\ud800"])
def test_one_entry_that_cannot_be_read_voids_the_whole_annotation(text: str) -> None:
    assert parse_assigned(text) is None


def test_an_empty_assignment_affects_no_pod() -> None:
    assert parse_assigned("{}") == {}


@pytest.mark.parametrize(
    ("units", "core", "shares"),
    [
        ({1: 4}, 0, ((1, Amount(4)),)),
        ({2: 4, 0: 4}, 20, ((0, Amount(4, 10)), (2, Amount(4, 10)))),
    ],
)
def test_allocated_units_become_shares(units: dict[int, int], core: int, shares: Shares) -> None:
    assert shares_from_units(units, core) == shares


TWO = sound(demand_of([main(4), main(2)]))


@pytest.mark.parametrize(
    ("text", "claim"),
    [
        ('{"0":{"0":4},"1":{"1":2}}', ((0, Amount(4)), (1, Amount(2)))),
        ('{"0":{"0":2,"1":2},"1":{"1":2}}', ((0, Amount(2)), (1, Amount(4)))),
        ('{"0":{"2":4},"1":{"2":2}}', ((2, Amount(6)),)),
        ('{"0":{"0":4}}', None),
        ('{"0":{"0":2},"1":{"1":4}}', None),  # the amounts of the other container
        ('{"0":{"0":4},"1":{"1":2},"2":{"1":1}}', None),
        ('{"0":{"0":4},"1":{"-1":2}}', None),
        ("{}", None),
    ],
)
def test_acks_own_scheduler_gives_each_container_a_gpu(text: str, claim: object) -> None:
    found = claim_of({contract.ANN_ALLOCATION: text}, TWO)
    assert found == claim
    assert known_shares(TWO, found, None, {0, 1, 2}) == claim
    assert known_shares(TWO, found, None, set()) is None


def test_a_bind_of_ours_never_has_a_gpu_for_each_container() -> None:
    text = '{"0":{"0":4},"1":{"1":2}}'
    ours = {contract.ANN_IDX: "0", contract.ANN_POD: "6", contract.ANN_ALLOCATION: text}
    assert claim_of(ours, TWO) is None
