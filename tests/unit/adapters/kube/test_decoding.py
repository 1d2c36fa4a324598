"""Objects of the API that are nested more deeply than Python decodes."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare.adapters.kube.decoding import decode, shallow
from gpushare.adapters.kube.wire import Bare, ListPage, WatchEvent

json_values = st.recursive(
    st.none() | st.integers(-9, 9) | st.text(alphabet='a"\\[]{},é\n'),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(alphabet='a"\\{'), inner, max_size=3),
)


def nested(depth: int, inside: bytes = b'"x"') -> bytes:
    return b'{"f:a\\"]":[' * (depth // 2) + inside + b"]}" * (depth // 2)


def named(depth: int) -> bytes:
    fields = b'{"fieldsV1":' + nested(depth) + b"}"
    return b'{"metadata":{"managedFields":[' + fields + b'],"name":"a"},"kind":"Pod"}'


@pytest.mark.parametrize("depth", [0, 90, 1200, 9994])
def test_an_object_of_any_depth_is_read(depth: int) -> None:
    page = b'{"items":[' + named(depth) + b',{"metadata":{"name":"b"}}]}'
    items = decode(msgspec.json.Decoder(ListPage[Bare]), page).items
    assert items is not None
    assert [each.metadata.name for each in items] == ["a", "b"]
    event = decode(msgspec.json.Decoder(WatchEvent), b'{"type":"ADDED","object":' + named(depth) + b"}")
    assert decode(msgspec.json.Decoder(Bare), event.object).metadata.name == "a"


@pytest.mark.parametrize(
    "body", [b"[" * 5000, nested(3000)[:-1], b"]" * 5000 + b"[" * 5000, b'{"a":"' + named(9994)]
)
def test_a_document_that_is_no_json_is_an_error_of_decoding(body: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode(msgspec.json.Decoder(ListPage[Bare]), body)


@pytest.mark.parametrize("texts", [b'"\\' * 500_000, b'"' * 500_001, b'"' + b"\\" * 1_000_001])
def test_a_text_without_an_end_takes_no_longer(texts: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode(msgspec.json.Decoder(Bare), b"[" * 1200 + texts)


@given(json_values)
def test_a_shallow_document_is_unchanged(value: Any) -> None:
    document = json.dumps(value, ensure_ascii=False).encode()
    assert shallow(document) == document


@given(json_values, json_values)
def test_what_is_beside_a_deep_value_stays(before: Any, after: Any) -> None:
    first, last = (json.dumps(each).encode() for each in (before, after))
    found = json.loads(shallow(b"[" + first + b"," + nested(2000, first) + b"," + last + b"]"))
    assert [found[0], found[2]] == [before, after]
