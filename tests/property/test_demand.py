"""The demand of a pod against a simulation of its life."""

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from gpushare.model.demand import ContainerDemand, ContainerKind, Demand, Malformed, demand_of
from tests.property.strategies import containers

sound_amounts = st.integers(0, 9)
any_amounts = st.integers(-2, 12)
labels = st.none() | st.sampled_from(("0", "1", "2", "3", "4", "two", "", "-1"))


def moments(listed: tuple[ContainerDemand, ...]) -> Iterator[list[ContainerDemand]]:
    """Who runs at each moment: the kubelet starts the pod, init container by init container."""
    running: list[ContainerDemand] = []
    for container in listed:
        running.append(container)
        yield list(running)
        if container.kind is ContainerKind.INIT:
            running.remove(container)
    yield running


def is_sound(listed: tuple[ContainerDemand, ...], label: str | None) -> bool:
    """The rules for a request, each on its own."""
    cards = {None: 1, "1": 1, "2": 2, "3": 3, "4": 4}.get(label)
    return (
        cards is not None
        and all(c.mem >= 0 and c.mem % cards == 0 and c.core % (5 * cards) == 0 for c in listed)
        and all(c.mem > 0 for c in listed if c.core)
        and all(sum(c.core for c in moment) <= 100 * cards for moment in moments(listed))
    )


@given(containers(sound_amounts))
def test_a_pod_takes_the_maximum_of_its_containers_at_any_time(
    listed: tuple[ContainerDemand, ...],
) -> None:
    found = demand_of(listed)
    demand = found.at_least if isinstance(found, Malformed) else found
    assert demand is not None
    assert demand.mem == max(sum(c.mem for c in moment) for moment in moments(listed))
    assert demand.core == max(sum(c.core for c in moment) for moment in moments(listed))


@given(containers(any_amounts), labels)
def test_a_request_is_valid_or_has_a_problem(listed: tuple[ContainerDemand, ...], label: str | None) -> None:
    found = demand_of(listed, label)
    assert isinstance(found, Demand) == is_sound(listed, label)
    if isinstance(found, Malformed):
        assert any(f" {c.name}:" in found.problem for c in listed) or (
            "aliyun.com/gpu-count" in found.problem or "exceed 100" in found.problem
        )


@given(containers(any_amounts), labels)
def test_the_units_of_all_gpus_add_up_to_the_request(
    listed: tuple[ContainerDemand, ...], label: str | None
) -> None:
    found = demand_of(listed, label)
    if isinstance(found, Demand):
        assert found.per_card.mem * found.cards == found.mem
        assert found.per_card.core * found.cards == found.core


@given(containers(any_amounts), labels)
def test_a_rejected_pod_is_never_thought_smaller_than_its_limits(
    listed: tuple[ContainerDemand, ...], label: str | None
) -> None:
    found = demand_of(listed, label)
    if isinstance(found, Malformed):
        assert found.at_least is not None
        assert found.at_least.cards == 1
        for moment in moments(listed):
            assert found.at_least.mem >= sum(c.mem for c in moment)
