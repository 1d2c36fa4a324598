"""The policy topology takes the set with the best links, on any machine and whatever is free."""

from collections.abc import Sequence
from itertools import combinations
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from gpushare.model.cards import Card
from gpushare.model.objects import Node
from gpushare.scheduling.book import Book, CardUsage
from gpushare.scheduling.fitting import PodRequest, Rejection, fitting_cards, place
from gpushare.scheduling.placement import score
from tests.support.builders.scheduling import cluster, demand, pod

SIZE = 12
NEARER = "snhqpbv"
"""Letters of the annotation, the farthest link first."""


@st.composite
def machines(draw: st.DrawFn) -> Book:
    """Up to seven GPUs, with links or without, some with pods and some unhealthy."""
    count = draw(st.integers(1, 7))
    letters = draw(st.sampled_from(("-", "v", "vp", "vps", NEARER, f"{NEARER}-")))
    drawn = {pair: draw(st.sampled_from(letters)) for pair in combinations(range(count), 2)}
    cards = tuple(
        Card(
            index,
            SIZE,
            numa=draw(st.sampled_from((None, 0, 1))),
            healthy=draw(st.integers(0, 5)) > 0,
            links="".join(drawn.get((min(index, at), max(index, at)), "-") for at in range(count)),
        )
        for index in range(count)
    )
    pods = [pod(f"p{index}", draw(st.integers(0, SIZE)), at="n", card=index) for index in range(count)]
    return cluster(Node("n", cards, placement="topology"), *pods).books["n"]


def total(cards: Sequence[Card]) -> int:
    """The sum of the values of the links, from the text of the annotation."""
    return sum(_value(one, other) for one, other in combinations(cards, 2))


def _value(one: Card, other: Card) -> int:
    letter = one.links[other.index]
    if letter != "-":
        return NEARER.index(letter)
    return int(one.numa is not None and one.numa == other.numa)


def order(usages: Sequence[CardUsage]) -> dict[int, int]:
    """The place of each GPU in the order of free memory, by index."""
    ordered = sorted(usages, key=lambda usage: (usage.free.mem, usage.card.index))
    return {usage.card.index: rank for rank, usage in enumerate(ordered)}


@given(machines(), st.integers(2, 4), st.integers(1, SIZE))
def test_no_other_set_of_gpus_that_fit_has_better_links_or_is_as_good_and_fuller(
    book: Book, count: int, units: int
) -> None:
    who = PodRequest("seeker", demand(count * units, cards=count))
    fitting = fitting_cards(book, who)
    found = place(book, who)
    if isinstance(found, Rejection):
        assert len(fitting) < count
        return
    ranks = order(fitting)

    def worth(cards: Sequence[Card]) -> tuple[int, int]:
        return total(cards), -sum(ranks[card.index] for card in cards)

    cards = {usage.card.index: usage.card for usage in fitting}
    chosen = [cards[index] for index, _ in found]
    assert len(chosen) == count
    assert worth(chosen) == max(map(worth, combinations(cards.values(), count)))


@given(machines(), st.integers(1, 4), st.integers(1, SIZE), st.randoms(use_true_random=False))
def test_the_choice_does_not_depend_on_the_order_of_the_pods(
    book: Book, count: int, units: int, random: Random
) -> None:
    who = PodRequest("seeker", demand(count * units, cards=count))
    assert place(book, who) == place(shuffled(book, random), who)


def shuffled(book: Book, random: Random) -> Book:
    """The same book, whose pods came in another order."""
    reservations = list(book.reservations.items())
    random.shuffle(reservations)
    return Book(book.name, book.node, reservations=dict(reservations))


@given(machines(), st.integers(1, SIZE))
def test_a_single_gpu_is_a_fullest_one_on_the_numa_node_with_the_least_free_units(
    book: Book, units: int
) -> None:
    who = PodRequest("seeker", demand(units))
    found = place(book, who)
    if isinstance(found, Rejection):
        return
    fitting = {usage.card.index: usage for usage in fitting_cards(book, who)}
    [(index, _)] = found
    fullest = min(usage.free.mem for usage in fitting.values())
    assert fitting[index].free.mem == fullest
    equal = [usage.card.numa for usage in fitting.values() if usage.free.mem == fullest]
    free = {
        numa: sum(max(0, usage.free.mem) for usage in book.usages if usage.card.numa == numa)
        for numa in equal
    }
    assert free[fitting[index].card.numa] == min(free.values())


@given(machines(), st.integers(1, 4), st.integers(1, SIZE))
def test_the_score_is_a_part_of_one(book: Book, count: int, units: int) -> None:
    who = PodRequest("seeker", demand(count * units, cards=count))
    found = place(book, who)
    if isinstance(found, Rejection):
        return
    chosen = [usage for usage in book.usages if usage.card.index in dict(found)]
    assert 0 <= score(book, chosen, who.demand) <= 1
