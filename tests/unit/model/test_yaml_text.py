"""YAML is read as kubectl reads it, and written so that kubectl reads the same."""

from typing import Any

import pytest
import yaml

from gpushare.model.yaml_text import dump, parse, parse_all

MANY_DIGITS = "9" * 5000
"""More than ``int`` accepts."""
TEXTS = [
    "2024-01-01",
    "2024-13-45",
    "2024-01-01T00:00:00Z",
    "2001-1-1",
    "12:30",
    "12:30:00",
    "1.5:30",
    "=",
    "0o",
    "0o9",
    "0b2",
    "yep",
    ".",
    "1.2.3",
    "100m",
    "-a",
    "_1",
    "-_",
    "._5",
    ".5_",
    "1_e",
    "1_2:30",
    "2024_01-01",
    "0B-1",
    "1e400",
    "0x1ffffffffffffffff",
    MANY_DIGITS,
]
"""kubectl 1.36 reads these plain scalars as text."""
OTHERS: list[tuple[str, Any]] = [
    ("y", True),
    ("Yes", True),
    ("on", True),
    ("N", False),
    ("OFF", False),
    ("010", 8),
    ("0o644", 0o644),
    ("-0o17", -15),
    ("0x1F", 31),
    ("0b11", 3),
    ("1_000", 1000),
    ("0", 0),
    ("-7", -7),
    ("1e3", 1000),
    ("12e03", 12000),
    (".5", 0.5),
    ("1.", 1),
    ("1e21", 1e21),
    ("1.5", 1.5),
    ("089", 89),
    ("0_1", 1),
    ("0x_1", 1),
    ("-_1", -1),
    ("+_1", 1),
    ("0_8", 8),
    ("0_o7", 7),
    ("0o1_7", 15),
    ("0b-1", -1),
    ("1_0.5", 10.5),
    ("1._5", 1.5),
    (".5_0", 0.5),
    ("1_0e2", 1000),
    ("12_e5", 1_200_000),
    ("1e3_0", 1e30),
    ("9999999999999999999999", 1e22),
    ("~", None),
]
"""And these as something else."""


@pytest.mark.parametrize("text", TEXTS)
def test_text_stays_text(text: str) -> None:
    assert parse(f"a: {text}") == {"a": text}


@pytest.mark.parametrize(("text", "value"), OTHERS)
def test_numbers_and_words_of_kubectl(text: str, value: Any) -> None:
    found = parse(f"a: {text}")["a"]
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize("text", [*TEXTS, *(text for text, _ in OTHERS), "", "a\nb", "<<", "null"])
def test_a_text_that_is_written_is_read_as_the_same_text(text: str) -> None:
    written = dump({text: text})
    assert parse(written) == {text: text}
    assert yaml.safe_load(written) == {text: text}


@pytest.mark.parametrize(("text", "_value"), OTHERS)
def test_a_text_that_would_be_something_else_is_quoted(text: str, _value: Any) -> None:
    assert dump({"a": text}) == f"a: '{text}'\n"


@pytest.mark.parametrize("number", [0, -7, 2**64, 1e20, 1e22, 0.5, 1000.0, 1e-5, float("inf")])
def test_numbers_are_written_plainly(number: float) -> None:
    assert "!" not in dump({"a": number})
    assert parse(dump({"a": number})) == {"a": number}


def test_an_explicit_float_may_be_written_as_an_integer() -> None:
    assert parse("a: !!float 0x1F") == {"a": 31}


def test_an_explicit_date_is_text_too() -> None:
    assert parse("a: !!timestamp 2024-01-01") == {"a": "2024-01-01"}


def test_anchors_and_merges() -> None:
    assert parse("a: &a {x: 1}\nb: {<<: *a, y1: 2}") == {"a": {"x": 1}, "b": {"x": 1, "y1": 2}}


@pytest.mark.parametrize(
    "text",
    [
        "a: !!int x",
        "a: !!int 1.5",
        "a: !!int [1]",
        "a: !!float x",
        "a: !!binary aGk=",
        "a: !!set {b}",
        "a: [",
        "a: !x 1",
    ],
)
def test_what_json_does_not_have_is_an_error_of_yaml(text: str) -> None:
    with pytest.raises(yaml.YAMLError):
        parse(text)


@pytest.mark.parametrize("text", ["a: &a [*a]", "&a {b: *a}", "a: &a {b: {c: [*a]}}", "[" * 2000])
def test_a_value_that_contains_itself_or_is_too_deep_is_an_error_of_yaml(text: str) -> None:
    with pytest.raises(yaml.YAMLError):
        parse_all(f"x: 1\n---\n{text}")


def test_several_documents() -> None:
    assert parse_all("a: 1\n---\nb: 2") == [{"a": 1}, {"b": 2}]
    assert parse("") is None
    with pytest.raises(yaml.YAMLError, match="single document, found 2"):
        parse("a: 1\n---\nb: 2")
