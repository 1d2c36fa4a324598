"""The demand of a pod, per container, per GPU and in total."""

import pytest

from gpushare.model.demand import Amount, ContainerDemand, Demand, Malformed, demand_of, suffix_hint
from tests.support.builders.scheduling import init, main, sidecar, sound


def asked(*containers: ContainerDemand, cards: str | None = None) -> Demand:
    return sound(demand_of(containers, cards))


def refused(*containers: ContainerDemand, cards: str | None = None) -> Malformed:
    found = demand_of(containers, cards)
    assert isinstance(found, Malformed)
    return found


def test_containers_of_a_pod_add_up() -> None:
    assert asked(main(3), main(4)).mem == 7


def test_a_pod_that_names_no_amount_requests_nothing() -> None:
    nothing = asked(main(0))
    assert (nothing.mem, nothing.core, nothing.cards) == (0, 0, 1)


def test_a_smaller_init_container_adds_nothing() -> None:
    assert asked(init(5), main(3), main(4)).mem == 7


def test_a_larger_init_container_decides_the_demand() -> None:
    assert asked(init(9), main(3), main(4)).mem == 9


def test_init_containers_run_one_after_the_other() -> None:
    assert asked(init(5), init(6), main(2)).mem == 6


def test_a_sidecar_keeps_running_beside_the_containers() -> None:
    assert asked(sidecar(2), main(4)).mem == 6


def test_a_sidecar_runs_beside_the_init_containers_after_it() -> None:
    assert asked(sidecar(2), init(5), main(1)).mem == 7


def test_a_sidecar_declared_later_does_not_run_beside_an_earlier_init_container() -> None:
    assert asked(init(5), sidecar(2), main(1)).mem == 5


def test_sidecars_add_up() -> None:
    assert asked(sidecar(1), sidecar(2), init(4), main(3)).mem == 7


def test_compute_follows_the_same_rule_on_its_own() -> None:
    found = asked(init(9, 10), sidecar(1, 20), main(2, 30))
    assert (found.mem, found.core) == (9, 50)


def test_the_containers_are_kept_in_their_order() -> None:
    listed = (init(1), sidecar(2), main(3))
    assert asked(*listed).containers == listed


def test_without_the_label_all_comes_from_one_gpu() -> None:
    assert asked(main(8, 40)).per_card == Amount(8, 40)


def test_the_label_spreads_the_pod_evenly() -> None:
    found = asked(main(8, 40), cards="2")
    assert (found.cards, found.per_card) == (2, Amount(4, 20))


@pytest.mark.parametrize("label", ["0", "-1", "", "two", "1.5", "100000", " 2"])
def test_a_label_that_is_no_number_of_gpus_is_rejected_and_repeated(label: str) -> None:
    found = refused(main(8), cards=label)
    assert f"label aliyun.com/gpu-count={label!r} is not a number of GPUs" in found.problem


def test_a_container_that_cannot_be_spread_evenly_is_named() -> None:
    found = refused(main(4, name="a"), main(3, name="b"), cards="2")
    assert found.problem == "container b: limit aliyun.com/gpu-mem=3 cannot be spread evenly over 2 GPUs"


def test_two_odd_containers_with_an_even_sum_are_rejected() -> None:
    assert refused(main(3), main(3), cards="2")


def test_an_init_container_must_spread_too() -> None:
    found = refused(init(3, name="warm-up"), main(4), cards="2")
    assert found.problem.startswith("init container warm-up: limit aliyun.com/gpu-mem=3 cannot be spread")


def test_compute_that_cannot_be_spread_is_named() -> None:
    found = refused(sidecar(3, 25, name="side"), cards="3")
    assert "sidecar side: limit aliyun.com/gpu-core.percentage=25 cannot be spread evenly" in found.problem


def test_a_negative_amount_is_rejected() -> None:
    assert refused(main(-1, name="a")).problem == "container a: limit aliyun.com/gpu-mem=-1 is negative"
    assert "gpu-core.percentage=-5 is negative" in refused(main(4, -5)).problem


def test_compute_without_memory_is_rejected() -> None:
    found = refused(main(4, 10), main(0, 10, name="b"))
    assert found.problem == (
        "container b: asks for aliyun.com/gpu-core.percentage without aliyun.com/gpu-mem on the same GPU"
    )


@pytest.mark.parametrize("core", [1, 4, 6, 99])
def test_compute_comes_in_steps_of_5(core: int) -> None:
    assert "is not a multiple of 5 on each GPU" in refused(main(4, core)).problem


def test_the_step_of_5_counts_on_each_gpu() -> None:
    assert asked(main(4, 10), cards="2").per_card.core == 5
    assert "is not a multiple of 5 on each GPU" in refused(main(4, 6), cards="2").problem
    assert "is not a multiple of 5 on each GPU" in refused(main(5, 5), cards="5").problem


def test_a_gpu_has_100_percent_of_compute_and_no_more() -> None:
    assert asked(main(4, 60), main(4, 40)).core == 100
    assert refused(main(4, 60), main(4, 45)).problem == (
        "limits aliyun.com/gpu-core.percentage=105 exceed 100 on each of 1 GPUs"
    )
    assert asked(main(8, 200), cards="2").per_card.core == 100


def test_a_rejected_pod_still_takes_its_limits_once_it_runs() -> None:
    found = refused(main(8), main(3), cards="2")
    assert found.at_least is not None
    assert (found.at_least.mem, found.at_least.cards) == (11, 1)


def test_a_negative_limit_does_not_reduce_the_others() -> None:
    found = refused(main(8), main(-3))
    assert found.at_least is not None
    assert found.at_least.mem == 8


@pytest.mark.parametrize(
    ("amount", "instead"),
    [(4 << 30, "write 4, not 4Gi"), (5 * 10**9, "write 5, not 5G"), (3 << 29, "write 2, not 1.5Gi")],
)
def test_an_amount_with_a_suffix_is_told_how_to_write_it(amount: int, instead: str) -> None:
    assert suffix_hint(amount) == f"aliyun.com/gpu-mem counts GiB by default: {instead}"
