"""The node annotation that lists the GPUs, and the list of GPUs out of service."""

from dataclasses import dataclass

import msgspec
import pytest

from gpushare.model.cards import (
    Card,
    equal_cards,
    format_cards,
    format_links,
    link_to,
    parse_cards,
    parse_indices,
)
from gpushare.model.demand import Malformed
from gpushare.model.hardware import Link


def problem(text: str) -> str:
    found = parse_cards(text)
    assert isinstance(found, Malformed)
    return found.problem


@pytest.mark.parametrize("link", Link)
def test_a_link_is_read_as_it_was_written_from_either_gpu(link: Link) -> None:
    links = {(0, 2): link}
    assert [link_to(format_links(0, links), index) for index in range(4)] == [None, None, link, None]
    assert link_to(format_links(2, links), 0) is link
    assert format_links(1, links) == ""


@pytest.mark.parametrize("links", ["", "-", "-?", "--"])
def test_a_link_that_is_absent_or_of_a_later_version_is_not_known(links: str) -> None:
    assert link_to(links, 1) is None


def test_the_t4_of_the_source_documents() -> None:
    text = (
        '[{"index": 0, "uuid": "GPU-1", "model": "Tesla T4", "mib": 15079, "units": 14,'
        ' "numa": 0, "minor": 0, "pci": "00000000:00:07.0", "healthy": true}]'
    )
    assert parse_cards(text) == (Card(0, 14, "GPU-1", "Tesla T4", 15079, 0, 0, "00000000:00:07.0"),)


def test_only_index_and_units_are_needed() -> None:
    assert parse_cards('[{"index":1,"units":14}]') == (Card(1, 14),)


def test_fields_of_a_later_version_are_passed_over() -> None:
    assert parse_cards('[{"index":1,"units":14,"mig":{"profile":"1g"}}]') == (Card(1, 14),)


def test_gpus_come_in_index_order_and_may_differ_in_size() -> None:
    assert parse_cards('[{"index":2,"units":22},{"index":0,"units":11}]') == (Card(0, 11), Card(2, 22))


def test_a_node_may_have_no_gpu() -> None:
    assert parse_cards("[]") == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('[{"index":0}]', "units"),
        ('[{"units":14}]', "index"),
        ('[{"index":"0","units":14}]', "$[0].index"),
        ('[{"index":0,"units":true}]', "$[0].units"),
        ('[{"index":0,"units":14.5}]', "$[0].units"),
        ('[{"index":0,"units":null}]', "$[0].units"),
        ('[{"index":0,"units":14},{"index":0,"units":15}]', "two GPUs have the same index"),
        ('[{"index":-1,"units":14}]', "negative"),
        ('[{"index":0,"units":-14}]', "negative"),
        ('{"0": 14}', "array"),
        ("14", "array"),
        ("null", "array"),
    ],
)
def test_the_error_for_an_invalid_list_has_the_reason(text: str, expected: str) -> None:
    assert expected in problem(text)


@pytest.mark.parametrize(
    "text", ["", "[", "junk", "[{]", '[{"index":0,"units":' + "9" * 5000 + "}]", "\ud800"]
)
def test_invalid_json_is_rejected(text: str) -> None:
    assert problem(text)


@pytest.mark.parametrize("nest", ["[", '{"a":'])
def test_text_nested_without_end_is_rejected_like_other_junk(nest: str) -> None:
    assert problem('[{"index":0,"units":14,"x":' + nest * 100_000)


def test_without_the_annotation_gpus_are_taken_to_be_equal() -> None:
    assert equal_cards(31, 2) == (Card(0, 15), Card(1, 15))


@pytest.mark.parametrize(
    ("text", "indices"),
    [("", set()), ("0", {0}), ("0,2", {0, 2}), (" 0 , 2 ", {0, 2}), ("1,,1,", {1}), (" , ", set())],
)
def test_unhealthy_gpus_are_listed_with_commas(text: str, indices: set[int]) -> None:
    assert parse_indices(text) == (frozenset(indices), ())


def test_an_entry_that_is_no_index_names_no_gpu_and_above_all_not_gpu_0() -> None:
    assert parse_indices("2,GPU-1,-1,0x0") == (frozenset({2}), ("GPU-1", "-1", "0x0"))


def test_a_reader_without_whole_gpu_pods_finds_the_gpu_unschedulable() -> None:
    @dataclass(frozen=True)
    class Older:
        index: int
        units: int
        healthy: bool = True

    text = format_cards((Card(0, 15, healthy=False, whole_gpu_pods=("default/app",)), Card(1, 15)))
    older = msgspec.json.decode(text, type=tuple[Older, ...])
    assert older == (Older(0, 15, healthy=False), Older(1, 15))


@pytest.mark.parametrize("odd", ['"default/app"', "[1]", "null", "{}"])
def test_whole_gpu_pods_that_are_no_names_make_the_annotation_unreadable(odd: str) -> None:
    assert isinstance(parse_cards(f'[{{"index":0,"units":14,"whole_gpu_pods":{odd}}}]'), Malformed)
