"""Label selectors in the syntax of kubectl's ``-l``.

They are matched here and not by the API server, so that a watch reports an object that loses its label.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gpushare.errors import InvalidRequest

Labels = Mapping[str, str]

_KEY: Final = r"(?P<key>[A-Za-z0-9][A-Za-z0-9_./-]*)"
_EXISTS: Final = re.compile(rf"(?P<no>!?)\s*{_KEY}", re.ASCII)
_EQUALS: Final = re.compile(rf"{_KEY}\s*(?P<op>==?|!=)\s*(?P<value>[A-Za-z0-9_.-]*)", re.ASCII)
_IN: Final = re.compile(rf"{_KEY}\s+(?P<op>(?:not)?in)\s*\((?P<values>[A-Za-z0-9_., -]*)\)", re.ASCII)
_COMMA_OUTSIDE_PARENTHESES: Final = re.compile(r",(?![^()]*\))")


@dataclass(frozen=True, slots=True)
class Term:
    """One condition: the label has one of ``values`` (None: any value), or the opposite if not ``wanted``.

    An absent label has no value, so it meets every condition that is not ``wanted``.
    """

    key: str
    values: frozenset[str] | None = None
    wanted: bool = True

    def matches(self, labels: Labels) -> bool:
        """Whether the labels meet the condition."""
        if self.values is None:
            return (self.key in labels) is self.wanted
        return (labels.get(self.key) in self.values) is self.wanted


@dataclass(frozen=True, slots=True)
class Selector:
    """Conditions that must all be met; without any, everything is selected."""

    terms: tuple[Term, ...] = ()

    def __call__(self, labels: Labels) -> bool:
        """Whether the labels meet all conditions."""
        return all(term.matches(labels) for term in self.terms)


EVERYTHING: Final = Selector()


def parse_selector(text: str) -> Selector:
    """A selector such as ``a=b,c!=d,e in (f,g),h,!i``. Raises InvalidRequest."""
    parts = _COMMA_OUTSIDE_PARENTHESES.split(text) if text.strip() else []
    return Selector(tuple(_term(part.strip()) for part in parts))


def _term(text: str) -> Term:
    if match := _EXISTS.fullmatch(text):
        return Term(match["key"], wanted=not match["no"])
    if match := _EQUALS.fullmatch(text):
        return Term(match["key"], frozenset({match["value"]}), wanted=match["op"] != "!=")
    if match := _IN.fullmatch(text):
        values = frozenset(value.strip() for value in match["values"].split(","))
        return Term(match["key"], values, wanted=match["op"] == "in")
    raise InvalidRequest(f"selector {text!r} is not like a=b, a!=b, a in (b,c), a or !a")
