"""Merges the objects of all combinations of choices into one tree with conditions. Pure.

What does not belong here: which choices there are (``release.chart.values``), the syntax of templates
(``release.chart.template``).
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

Combination = tuple[str, ...]
"""One option of each choice, in the order of the choices."""
Variants = Mapping[Combination, Any]
"""The value for each combination."""


@dataclass(frozen=True)
class Condition:
    """Holds for combinations with one of ``options`` in choice number ``choice``; ``others`` are the rest."""

    choice: int
    options: frozenset[str]
    others: frozenset[str]


@dataclass(frozen=True)
class All:
    """Holds if all parts hold; always without parts."""

    parts: tuple["Test", ...] = ()


@dataclass(frozen=True)
class Any_:  # noqa: N801 - Any is a type
    """Holds if one of the parts holds."""

    parts: tuple["Test", ...]


Test = Condition | All | Any_
ALWAYS: Final = All()


@dataclass(frozen=True)
class Scalar:
    """A value that is the same in all combinations: text, a number, a boolean, null or an empty container."""

    value: Any


@dataclass(frozen=True)
class Entry:
    """A value that exists if the test holds; ``key`` is empty in a list."""

    test: Test
    key: str
    value: "Tree"


@dataclass(frozen=True)
class Fields:
    """A mapping."""

    entries: tuple[Entry, ...]


@dataclass(frozen=True)
class Items:
    """A list."""

    entries: tuple[Entry, ...]


@dataclass(frozen=True)
class Cases:
    """Values of which exactly one test holds."""

    entries: tuple[Entry, ...]


Tree = Scalar | Fields | Items | Cases


def merge(variants: Variants) -> Tree:
    """Return the tree whose value for each combination is that of ``variants``."""
    values = list(variants.values())
    if all(isinstance(each, dict) and each for each in values):
        return _fields(variants)
    if all(isinstance(each, list) and each for each in values) and (items := _items(variants)):
        return items
    groups = _equal(variants)
    if len(groups) == 1:
        return _constant(values[0])
    universe = frozenset(variants)
    return Cases(tuple(Entry(when(frozenset(each), universe), "", merge(each)) for each in groups))


def when(chosen: frozenset[Combination], universe: frozenset[Combination]) -> Test:
    """Return a short test that holds in ``chosen`` and in no other combination of ``universe``."""
    if chosen == universe:
        return ALWAYS
    boxes = [_condition(choice, chosen, universe) for choice in range(len(next(iter(universe))))]
    for box in boxes:
        if _matching(box, universe) == chosen:
            return box
    parts = [box for box in boxes if box.others]
    if _matching_all(parts, universe) == chosen:
        return All(tuple(_needed(parts, chosen, universe)))
    return _split(chosen, universe)


def _split(chosen: frozenset[Combination], universe: frozenset[Combination]) -> Test:
    """By the choice that leaves the fewest parts."""
    tests = [_by_choice(choice, chosen, universe) for choice in range(len(next(iter(universe))))]
    return min((each for each in tests if each), key=_size)


def _by_choice(choice: int, chosen: frozenset[Combination], universe: frozenset[Combination]) -> Test | None:
    options = sorted({each[choice] for each in universe})
    if len(options) == 1:
        return None
    parts: dict[Test, set[str]] = {}
    for option in options:
        inside = frozenset(each for each in chosen if each[choice] == option)
        if inside:
            rest = when(inside, frozenset(each for each in universe if each[choice] == option))
            parts.setdefault(rest, set()).add(option)
    tests = [
        All((_options(choice, found, options), *([] if rest == ALWAYS else [rest])))
        for rest, found in parts.items()
    ]
    return tests[0] if len(tests) == 1 else Any_(tuple(tests))


def _condition(choice: int, chosen: frozenset[Combination], universe: frozenset[Combination]) -> Condition:
    return _options(choice, {each[choice] for each in chosen}, {each[choice] for each in universe})


def _options(choice: int, found: Iterable[str], known: Iterable[str]) -> Condition:
    return Condition(choice, frozenset(found), frozenset(known) - frozenset(found))


def _matching(box: Condition, universe: frozenset[Combination]) -> frozenset[Combination]:
    return frozenset(each for each in universe if each[box.choice] in box.options)


def _matching_all(parts: Sequence[Condition], universe: frozenset[Combination]) -> frozenset[Combination]:
    for each in parts:
        universe = _matching(each, universe)
    return universe


def _needed(
    parts: Sequence[Condition], chosen: frozenset[Combination], universe: frozenset[Combination]
) -> list[Condition]:
    needed = list(parts)
    for each in parts:
        fewer = [other for other in needed if other != each]
        if _matching_all(fewer, universe) == chosen:
            needed = fewer
    return needed


def _size(test: Test) -> int:
    return 1 if isinstance(test, Condition) else 1 + sum(map(_size, test.parts))


def _fields(variants: Variants) -> Fields:
    keys = _in_order([list(each) for each in variants.values()]) or sorted(
        {key for each in variants.values() for key in each}
    )
    universe = frozenset(variants)
    found = []
    for key in keys:
        having = {combination: each[key] for combination, each in variants.items() if key in each}
        found.append(Entry(when(frozenset(having), universe), key, merge(having)))
    return Fields(tuple(found))


def _items(variants: Variants) -> Items | None:
    """None if the lists have the same items in different orders."""
    named = {
        combination: dict(zip(_names(each), each, strict=True)) for combination, each in variants.items()
    }
    order = _in_order([list(each) for each in named.values()])
    if order is None:
        return None
    universe = frozenset(variants)
    found = []
    for name in order:
        having = {combination: each[name] for combination, each in named.items() if name in each}
        found.append(Entry(when(frozenset(having), universe), "", merge(having)))
    return Items(tuple(found))


def _names(items: Sequence[Any]) -> list[str]:
    """A name for each item that is the same in all lists: that of a named object, else its content."""
    seen: dict[str, int] = {}
    names = []
    for each in items:
        name = str(each.get("name")) if isinstance(each, dict) and "name" in each else json.dumps(each)
        seen[name] = seen.get(name, 0) + 1
        names.append(f"{name} {seen[name]}")
    return names


def _in_order(lists: Sequence[Sequence[str]]) -> list[str] | None:
    """All names, so that each list is a part of it in order; None if there is no such order."""
    merged: list[str] = []
    for names in lists:
        position = 0
        for name in names:
            if name in merged:
                position = merged.index(name) + 1
            else:
                merged.insert(position, name)
                position += 1
    fits = all([name for name in merged if name in set(names)] == list(names) for names in lists)
    return merged if fits else None


def _equal(variants: Variants) -> list[dict[Combination, Any]]:
    groups: dict[str, dict[Combination, Any]] = {}
    for combination, each in variants.items():
        # A boolean is not the number 1.
        groups.setdefault(json.dumps(each), {})[combination] = each
    return list(groups.values())


def _constant(value: Any) -> Tree:
    if isinstance(value, dict) and value:
        return Fields(tuple(Entry(ALWAYS, key, _constant(each)) for key, each in value.items()))
    if isinstance(value, list) and value:
        return Items(tuple(Entry(ALWAYS, "", _constant(each)) for each in value))
    return Scalar(value)
