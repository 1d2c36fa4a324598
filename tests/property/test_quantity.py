"""Properties of all quantities."""

from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpushare.errors import InvalidRequest
from gpushare.model.quantity import parse_quantity, parse_small
from tests.property.strategies import json_values

LARGEST = 2**63 - 1
EXACT = Context(prec=400)
SCALES = {
    "": Decimal(1),
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    **{suffix: Decimal(10) ** (3 * i) for i, suffix in enumerate("kMGTPE", 1)},
    **{f"{suffix}i": Decimal(1024) ** i for i, suffix in enumerate("KMGTPE", 1)},
}
digits = st.text("0123456789", max_size=20)


@given(st.integers(-LARGEST, LARGEST))
def test_a_whole_number_is_itself(number: int) -> None:
    assert parse_quantity(str(number)) == parse_quantity(number) == number


@given(
    st.sampled_from(("", "+", "-")),
    digits,
    st.none() | digits,
    st.sampled_from(sorted(SCALES)) | st.integers(-60, 60).map(lambda power: f"e{power}"),
)
@example("", "1", None, "e45")
@example("", "0", "0" * 19 + "1", "e40")
def test_a_quantity_is_its_exact_value_rounded_away_from_zero(
    sign: str, whole: str, part: str | None, suffix: str
) -> None:
    number = whole + ("" if part is None else f".{part}")
    if not number.strip("."):
        with pytest.raises(InvalidRequest):
            parse_quantity(sign + number + suffix)
        return
    scale = SCALES[suffix] if suffix in SCALES else EXACT.power(Decimal(10), Decimal(suffix[1:]))
    exact = EXACT.multiply(Decimal(f"{sign}0{number}"), scale)
    rounded = int(exact.to_integral_value(ROUND_FLOOR if exact < 0 else ROUND_CEILING))
    assert parse_quantity(sign + number + suffix) == max(-LARGEST, min(LARGEST, rounded))


@given(st.text(max_size=70) | st.text("0123456789.eE+-kKmMGi", max_size=12) | json_values)
@example("1e" + "9" * 62)
@example("٣")
def test_any_input_is_a_number_or_an_invalid_request(value: object) -> None:
    try:
        found = parse_quantity(value)
    except InvalidRequest:
        return
    assert -LARGEST <= found <= LARGEST


@given(st.text(max_size=8) | st.text("0123456789", max_size=8))
def test_an_index_is_what_python_reads_from_plain_digits_and_nothing_else(text: str) -> None:
    found = parse_small(text)
    plain = 0 < len(text) <= 5 and all(c in "0123456789" for c in text)
    assert found == (int(text) if plain else None)
