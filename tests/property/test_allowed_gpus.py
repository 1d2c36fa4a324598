"""No pod is placed on a GPU that its annotations exclude, whoever is there."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from gpushare.contract import CHOICE_ANNOTATIONS
from gpushare.errors import InvalidRequest
from gpushare.model.cards import Card
from gpushare.model.gpu_choice import GpuChoice, gpu_choice
from gpushare.model.objects import Node
from gpushare.scheduling.book import Book
from gpushare.scheduling.fitting import PodRequest, Rejection, place
from tests.support.builders.scheduling import cluster, demand, pod

MODELS = ("Tesla T4", "NVIDIA A10", "NVIDIA A100-SXM4-80GB", "")
APPS = ("a", "b")


@st.composite
def books(draw: st.DrawFn) -> Book:
    """Up to four GPUs of different models, and pods with one of two labels, some with unknown GPUs."""
    cards = tuple(
        Card(index, 12, uuid=f"GPU-{index}", model=draw(st.sampled_from(MODELS)))
        for index in range(draw(st.integers(1, 4)))
    )
    pods = [
        pod(f"p{at}", 1, at="n", card=draw(st.sampled_from((None, *range(len(cards))))), labels={"app": app})
        for at, app in enumerate(draw(st.lists(st.sampled_from(APPS), max_size=4)))
    ]
    return cluster(Node("n", cards), *pods).books["n"]


VALUES = dict(
    zip(
        CHOICE_ANNOTATIONS,
        (
            ("T4", "A10, A100"),
            ("A10", "T4"),
            ("GPU-0,GPU-1,GPU-2", "GPU-3"),
            ("GPU-0", "GPU-1"),
            ("app=a", "p0"),
            ("app=b", "p1"),
        ),
        strict=True,
    )
)


@st.composite
def choices(draw: st.DrawFn) -> GpuChoice | None:
    keys = draw(st.sets(st.sampled_from(CHOICE_ANNOTATIONS), min_size=1, max_size=3))
    said = tuple((key, draw(st.sampled_from(VALUES[key]))) for key in sorted(keys))
    try:
        return gpu_choice(said, "default")
    except InvalidRequest:
        return None


@given(books(), choices(), st.integers(1, 2))
def test_every_chosen_gpu_is_allowed(book: Book, choice: GpuChoice | None, cards: int) -> None:
    found = place(book, PodRequest("seeker", replace(demand(cards, cards=cards), gpus=choice)))
    if choice is None or isinstance(found, Rejection):
        return
    by_index = {usage.card.index: usage.card for usage in book.usages}
    for index, _ in found:
        assert choice.allows(by_index[index].model, by_index[index].uuid)
        here = [r for r in book.reservations.values() if r.claim and index in dict(r.claim)]
        unknown = [r for r in book.reservations.values() if r.claim is None]
        if choice.same_as:
            assert any((r.pod, r.labels) in choice.same_as for r in here)
        if choice.other_than:
            assert not any((r.pod, r.labels) in choice.other_than for r in (*here, *unknown))
