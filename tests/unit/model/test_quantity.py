"""Quantities: expected values are those of Go's ``resource.Quantity.Value()`` of apimachinery 0.36.3."""

import time

import pytest

from gpushare.errors import InvalidRequest
from gpushare.model.quantity import parse_milli, parse_quantity, parse_small

LARGEST = 2**63 - 1


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("4", 4),
        ("+4", 4),
        ("004", 4),
        ("-0", 0),
        ("10k", 10_000),
        ("10M", 10**7),
        ("10G", 10**10),
        ("1T", 10**12),
        ("1P", 10**15),
        ("1E", 10**18),
        ("1Ki", 1024),
        ("1Mi", 2**20),
        ("4Gi", 4 * 2**30),
        ("1Ti", 2**40),
        ("1Pi", 2**50),
        ("7Ei", 7 * 2**60),
        ("1.5Gi", 3 * 2**29),
        ("1.5", 2),
        ("5.", 5),
        (".5", 1),
        ("0.1Ki", 103),
        ("1.0000000001", 2),
        ("100m", 1),
        ("1500m", 2),
        ("1u", 1),
        ("1n", 1),
        ("1e3", 1000),
        ("1E3", 1000),
        ("1e+3", 1000),
        ("1e-3", 1),
        ("1.5e1", 15),
        ("0e99", 0),
        ("-1", -1),
        ("-1.5", -2),
        ("-100m", -1),
        ("9223372036854775807", LARGEST),
    ],
)
def test_a_quantity_is_worth_the_value_of_go(text: str, value: int) -> None:
    assert parse_quantity(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0." + "0" * 40 + "1e45", 10_000),
        ("1" + "0" * 40 + "e-38", 100),
        ("1" + "0" * 30 + "e-31", 1),
        ("." + "0" * 58 + "1e61", 100),
    ],
)
def test_many_digits_and_a_large_exponent_still_cancel_out(text: str, value: int) -> None:
    assert parse_quantity(text) == value


@pytest.mark.parametrize("text", ["9223372036854775808", "8Ei", "10E", "1e30", "1e99999999", "9" * 64])
def test_more_than_an_int64_is_capped_and_never_wraps(text: str) -> None:
    assert parse_quantity(text) == LARGEST
    assert parse_quantity(f"-{text}"[:64]) == -LARGEST


@pytest.mark.parametrize("text", ["1e99999999", "1e-99999999", "0e99999999", "1e" + "9" * 60])
def test_a_huge_exponent_takes_no_time(text: str) -> None:
    started = time.process_time()
    parse_quantity(text)
    assert time.process_time() - started < 0.5


@pytest.mark.parametrize(("number", "value"), [(4, 4), (-3, -3), (0, 0), (10**40, LARGEST)])
def test_a_json_number_is_its_value(number: int, value: int) -> None:
    assert parse_quantity(number) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        ".",
        "-",
        "+",
        "Gi",
        "4 ",
        " 4",
        "4\n",
        "4gi",
        "4GB",
        "1K",
        "1ki",
        "1e",
        "1e1.5",
        "1.2.3",
        "--1",
        "1_000",
        "0x10",
        "NaN",
        "inf",
        "1E1G",
        "٣",  # noqa: PLE2515, RUF100 - an Arabic digit is a digit to Python's int()
        "four",
    ],
)
def test_junk_is_rejected_and_the_rejection_repeats_it(text: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        parse_quantity(text)
    assert repr(text) in str(refusal.value)


@pytest.mark.parametrize("value", [None, True, False, 4.0, [4], {"mem": 4}])
def test_only_texts_and_whole_numbers_are_accepted(value: object) -> None:
    with pytest.raises(InvalidRequest, match="quantity"):
        parse_quantity(value)


def test_a_rejection_does_not_repeat_a_megabyte() -> None:
    with pytest.raises(InvalidRequest) as refusal:
        parse_quantity("9" * 2**20)
    assert len(str(refusal.value)) < 200


@pytest.mark.parametrize(("text", "value"), [("0", 0), ("7", 7), ("007", 7), ("99999", 99_999)])
def test_an_index_is_a_plain_number(text: str, value: int) -> None:
    assert parse_small(text) == value


@pytest.mark.parametrize("text", [None, "", "-1", "+1", "1.0", " 1", "1 ", "100000", "1e3", "²", "٣", "x"])
def test_anything_else_is_no_index_and_above_all_not_0(text: str | None) -> None:
    assert parse_small(text) is None


@pytest.mark.parametrize(("text", "value"), [("500m", 500), ("2", 2000), (2, 2000), ("0.1", 100), ("1n", 1)])
def test_thousandths_are_rounded_up(text: object, value: int) -> None:
    assert parse_milli(text) == value


@pytest.mark.parametrize("text", ["x", "", None, True, "1" * 100])
def test_thousandths_of_no_quantity(text: object) -> None:
    with pytest.raises(InvalidRequest):
        parse_milli(text)
