"""The sets of GPUs with the best links, among few and among many GPUs."""

from collections.abc import Callable, Iterable
from itertools import combinations
from math import comb
from random import Random

import pytest

from gpushare.scheduling.link_search import MOST_SETS, Choice, Spot, best_choices, value


def machine(count: int, letter: Callable[[int, int], str]) -> tuple[Spot, ...]:
    """A machine; ``letter`` is the link of two GPUs, of which the lower index comes first."""
    return tuple(
        Spot(
            one,
            None,
            "".join("-" if one == other else letter(*sorted((one, other))) for other in range(count)),
        )
        for one in range(count)
    )


def in_pairs(one: int, other: int) -> str:
    """Pairs with NVLinks, two pairs on a PCIe switch, four pairs on a NUMA node."""
    return next(
        letter for size, letter in ((2, "v"), (4, "p"), (8, "n"), (16, "s")) if one // size == other // size
    )


def cube(one: int, other: int) -> str:
    """The hybrid cube of a DGX-1: two fours with NVLinks, and from each GPU to that of the other four."""
    return "v" if one // 4 == other // 4 or one % 4 == other % 4 else "s"


def members(choice: Choice) -> list[int]:
    return [gpu for part in choice for gpu in part.gpus[: part.number]]


def total(spots: tuple[Spot, ...], gpus: Iterable[int]) -> int:
    return sum(value(spots[one], spots[other]) for one, other in combinations(gpus, 2))


@pytest.mark.parametrize(
    "spots",
    [machine(16, in_pairs), machine(16, lambda *_: "v"), machine(8, cube), machine(16, lambda *_: "-")],
    ids=["pairs", "nvswitch", "cube", "unknown"],
)
@pytest.mark.parametrize("size", [2, 3, 4, 6, 8])
def test_machines_as_they_are_built_get_their_best_sets(spots: tuple[Spot, ...], size: int) -> None:
    best = max(total(spots, some) for some in combinations(range(len(spots)), size))
    choices = best_choices(spots, size)
    assert {total(spots, members(choice)) for choice in choices} == {best}
    assert {len(members(choice)) for choice in choices} == {size}


def test_gpus_that_are_alike_are_one_part() -> None:
    [[part]] = best_choices(machine(16, lambda *_: "v"), 8)
    assert part == (tuple(range(16)), 8)


@pytest.mark.parametrize("seed", range(5))
def test_of_too_many_different_sets_one_is_taken_that_no_exchange_improves(seed: int) -> None:
    letters = Random(seed).choices("vbpqhns", k=comb(16, 2))
    links = dict(zip(combinations(range(16), 2), letters, strict=True))
    spots = machine(16, lambda one, other: links[one, other])
    [choice] = best_choices(spots, 8)
    chosen = members(choice)
    assert len({*chosen}) == 8
    for out in chosen:
        for into in set(range(16)) - {*chosen}:
            assert total(spots, [into, *(each for each in chosen if each != out)]) <= total(spots, chosen)
    best_choices.cache_clear()
    assert best_choices(spots, 8) == (choice,)


def test_all_sets_of_eight_gpus_are_compared() -> None:
    assert max(comb(8, size) for size in range(9)) <= MOST_SETS


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (Spot(0, None, "-v"), Spot(1, None, "v-"), 6),
        (Spot(0, 0, "-s"), Spot(1, 0, "s-"), 0),
        (Spot(0, 0, ""), Spot(1, 0, ""), 1),
        (Spot(0, 0, ""), Spot(1, 1, ""), 0),
        (Spot(0, None, ""), Spot(1, None, ""), 0),
    ],
    ids=["nvlink", "published", "same NUMA node", "other NUMA node", "unknown"],
)
def test_the_value_of_two_gpus_is_that_of_the_link_or_of_their_numa_nodes(
    one: Spot, other: Spot, expected: int
) -> None:
    assert value(one, other) == value(other, one) == expected


def test_links_that_contradict_each_other_have_one_value() -> None:
    one, other = Spot(0, None, "-v"), Spot(1, None, "s-")
    assert value(one, other) == value(other, one) == 6
