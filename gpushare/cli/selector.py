"""Label selectors, as kubectl's ``-l`` has them.

Matched here and not by the API server, so that a watch sees a node that loses its label go.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

from gpushare.errors import InvalidRequest

Labels = Mapping[str, str]
Selector = Callable[[Labels], bool]

_KEY: Final = r"(?P<key>[A-Za-z0-9][A-Za-z0-9_./-]*)"
_EXISTS: Final = re.compile(rf"(?P<no>!?)\s*{_KEY}", re.ASCII)
_EQUALS: Final = re.compile(rf"{_KEY}\s*(?P<op>==?|!=)\s*(?P<value>[A-Za-z0-9_.-]*)", re.ASCII)
_IN: Final = re.compile(rf"{_KEY}\s+(?P<op>(?:not)?in)\s*\((?P<values>[A-Za-z0-9_., -]*)\)", re.ASCII)
_COMMA_OUTSIDE_PARENTHESES: Final = re.compile(r",(?![^()]*\))")


def parse_selector(text: str) -> Selector:
    """``a=b,c!=d,e in (f,g),h,!i``: all must hold. Raises InvalidRequest."""
    terms = [_term(part.strip()) for part in _COMMA_OUTSIDE_PARENTHESES.split(text)] if text.strip() else []
    return lambda labels: all(term(labels) for term in terms)


def _term(text: str) -> Selector:
    if match := _EXISTS.fullmatch(text):
        return _exists(match["key"], wanted=not match["no"])
    if match := _EQUALS.fullmatch(text):
        return _one_of(match["key"], {match["value"]}, wanted=match["op"] != "!=")
    if match := _IN.fullmatch(text):
        values = {value.strip() for value in match["values"].split(",")}
        return _one_of(match["key"], values, wanted=match["op"] == "in")
    raise InvalidRequest(f"selector {text!r} is not like a=b, a!=b, a in (b,c), a or !a")


def _exists(key: str, *, wanted: bool) -> Selector:
    return lambda labels: (key in labels) is wanted


def _one_of(key: str, values: set[str], *, wanted: bool) -> Selector:
    """A label that is absent has no value, so what is not wanted of it is not there."""
    return lambda labels: (labels.get(key) in values) is wanted
