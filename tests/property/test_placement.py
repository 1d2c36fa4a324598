"""The placement policies choose and score as defined, in any ledger."""

from hypothesis import given
from hypothesis import strategies as st

from gpushare.scheduling.book import Book
from gpushare.scheduling.fitting import PodRequest, Rejection, fitting_cards, place
from gpushare.scheduling.ledger import Ledger
from tests.property.strategies import NODES, PLACEMENTS, ledgers, pod_requests
from tests.support.builders.scheduling import score


def effective(book: Book, who: PodRequest) -> str:
    """The pod's policy, then the node's, then binpack."""
    label = book.node.placement if book.node else None
    known = ("binpack", "spread", "topology")
    return next((name for name in (who.placement, label) if name in known), "binpack")


@given(ledgers(), pod_requests(), st.sampled_from(PLACEMENTS))
def test_without_links_the_gpus_with_the_least_or_the_most_free_units_are_chosen(
    ledger: Ledger, pod: PodRequest, requested: str | None
) -> None:
    who = PodRequest(pod.uid, pod.demand, pod.priority, requested)
    for name in NODES:
        book = ledger.books[name]
        found = place(book, who)
        if isinstance(found, Rejection):
            continue
        sign = -1 if effective(book, who) == "spread" else 1
        free = sorted((sign * usage.free.mem, usage.card.index) for usage in fitting_cards(book, who))
        best = sorted(index for _, index in free[: who.demand.cards])
        assert [index for index, _ in found] == best


@given(ledgers(), pod_requests(), st.sampled_from(PLACEMENTS))
def test_without_links_the_score_counts_the_free_share_of_the_chosen_gpus(
    ledger: Ledger, pod: PodRequest, requested: str | None
) -> None:
    who = PodRequest(pod.uid, pod.demand, pod.priority, requested)
    for name in NODES:
        book = ledger.books[name]
        found = place(book, who)
        if isinstance(found, Rejection):
            assert score(ledger, who, name) == 0
            continue
        chosen = [usage for usage in book.usages if usage.card.index in dict(found)]
        left = sum(usage.free.mem for usage in chosen) - who.demand.mem
        part = left / max(1, sum(usage.total.mem for usage in chosen))
        value = part if effective(book, who) == "spread" else 1 - part
        # A fifth is left for several GPUs that are not linked.
        unlinked = effective(book, who) == "topology" and who.demand.cards > 1
        points = 1 + round(9 * (value / 5 if unlinked else value))
        listed = all(usage.card.is_listed for usage in chosen)
        assert score(ledger, who, name) == (points if listed else 0)
