from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare.errors import InvalidRequest
from gpushare.isolation.limits import CardLimit, is_same_limit, parse, text

UUID = "GPU-00000000-1111-2222-3333-444444444444"


@pytest.mark.parametrize(
    ("card_mib", "units", "card_units", "limit"), [(15079, 4, 14, 4308), (16130, 4, 15, 4301)]
)
def test_the_limit_is_the_share_of_the_gpu_rounded_down(
    card_mib: int, units: int, card_units: int, limit: int
) -> None:
    assert CardLimit(UUID, card_mib, units, card_units).limit_mib == limit


@given(st.integers(1, 1 << 20), st.lists(st.integers(1, 50), min_size=1, max_size=20))
def test_all_shares_together_fit_the_gpu(card_mib: int, shares: list[int]) -> None:
    limits = [CardLimit(UUID, card_mib, units, sum(shares)).limit_mib for units in shares]
    assert sum(limits) <= card_mib


def test_limits_are_the_same_if_only_estimates_of_contexts_differ() -> None:
    found = CardLimit(UUID, 15079, 4, 14, context_mib=121, core_percent=25)
    same, lower = replace(found, context_mib=518), replace(found, core_percent=24)
    assert is_same_limit(text([found]), text([same]))
    assert not is_same_limit(text([found]), text([lower]))
    assert not is_same_limit(text([found]), text([found, replace(found, uuid="GPU-1")]))
    assert not is_same_limit("", text([found]))


def test_each_gpu_has_a_line() -> None:
    assert text([CardLimit(UUID, 15079, 4, 14, context_mib=121, core_percent=25)]) == (
        "gpushare-limit 1\n"
        f"card={UUID} limit_mib=4308 card_mib=15079 units=4 card_units=14 context_mib=121 core_percent=25\n"
        "end\n"
    )


@pytest.mark.parametrize(
    "card",
    [
        CardLimit("GPU-a b", 1, 1, 1),
        CardLimit("x" * 48, 1, 1, 1),
        CardLimit(UUID, 1, 2, 1),
        CardLimit(UUID, 1, 0, 0),
        CardLimit(UUID, -1, 1, 1),
        CardLimit(UUID, 1 << 25, 1, 1),
        CardLimit(UUID, 1, 1, 1, context_mib=-1),
        CardLimit(UUID, 1, 1, 1, core_percent=101),
    ],
)
def test_limits_that_the_library_would_refuse_are_not_written(card: CardLimit) -> None:
    with pytest.raises(InvalidRequest, match=card.uuid):
        text([card])


def test_a_gpu_has_one_limit_and_there_are_sixteen_gpus() -> None:
    card = CardLimit(UUID, 1, 1, 1)
    with pytest.raises(InvalidRequest, match="two limits"):
        text([card, card])
    with pytest.raises(InvalidRequest, match="16 GPUs"):
        text([CardLimit(f"GPU-{n:02}", 1, 1, 1) for n in range(17)])


SHARES = st.builds(
    lambda uuid, whole, numbers: CardLimit(uuid, whole, min(numbers[:2]), max(*numbers[:2], 1), *numbers[2:]),
    st.from_regex(r"[0-9A-Za-z-]{5,47}", fullmatch=True),
    st.integers(0, 1 << 24),
    st.tuples(*[st.integers(0, 1 << 24)] * 3, st.integers(0, 100)),
)


@given(st.lists(SHARES, max_size=16, unique_by=lambda card: card.uuid))
def test_written_values_are_read_back(cards: list[CardLimit]) -> None:
    assert parse(text(cards)) == tuple(cards)


GOOD = text([CardLimit(UUID, 15079, 4, 14)])


@pytest.mark.parametrize(
    "content",
    [
        "",
        GOOD.removesuffix("end\n"),
        GOOD.replace("4308", "4309"),
        GOOD.replace("units=4", "units=04"),
        GOOD.replace("15079", "9" * 5000),
        GOOD.replace("GPU-", "GPU/"),
        f"{GOOD}more",
    ],
)
def test_other_texts_are_refused(content: str) -> None:
    with pytest.raises(InvalidRequest):
        parse(content)
