"""Checks of hosts and their output: a table, a JSON document, a list of failures. Pure.

What does not belong here: the checks themselves, and Ansible.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final

Document = dict[str, Any]
FORMAT: Final = 1
"""Version of the JSON documents; it increases when the meaning of a key changes."""


class Level(StrEnum):
    """Result of a check, from good to bad."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


_ORDER: Final = tuple(Level)


@dataclass(frozen=True, slots=True)
class Check:
    """One check of a host.

    ``found`` is the cell of the table; ``problem`` is the problem and its fix.
    """

    name: str
    level: Level
    found: str
    problem: str = ""


def judged(name: str, found: str, problems: Iterable[tuple[Level, str]]) -> Check:
    """Return one check of several problems, as bad as the worst of them."""
    listed = list(problems)
    return Check(name, worst(level for level, _ in listed), found, "; ".join(text for _, text in listed))


def worst(levels: Iterable[str]) -> Level:
    """Return the worst level, ok if there is none."""
    return max((Level(level) for level in levels), key=_ORDER.index, default=Level.OK)


def verdict(checks: Iterable[Check], report: Document | None = None) -> Document:
    """Return the result of one host, as plain data."""
    listed = [asdict(check) | {"level": str(check.level)} for check in checks]
    return {
        "level": str(worst(check["level"] for check in listed)),
        "checks": listed,
        "report": report,
    }


def not_examined(reason: str) -> Document:
    """Return the verdict of a host without a report."""
    return verdict([Check("report", Level.FAIL, "", reason)])


def failures(judgement: Document) -> list[str]:
    """Return the failed checks, each with its fix."""
    return [
        f"{check['name']}: {check['problem']}"
        for check in judgement["checks"]
        if check["level"] == Level.FAIL
    ]


def document(verdicts: Mapping[str, Document], kind: str, cluster: Document | None = None) -> Document:
    """Return the JSON document of all hosts and, if it was checked, of the cluster. Stable keys."""
    levels = [judgement["level"] for judgement in verdicts.values()]
    of_cluster = {"cluster": cluster} if cluster else {}
    return {
        "format": FORMAT,
        "kind": kind,
        "ok": Level.FAIL not in (*levels, cluster and cluster["level"]),
        "counts": {str(level): levels.count(level) for level in Level},
        "hosts": dict(verdicts),
        **of_cluster,
    }


def table(verdicts: Mapping[str, Document]) -> str:
    """Return one table for all hosts, then one line per failure and warning."""
    found = [check for one in verdicts.values() for check in one["checks"] if check["found"]]
    names = list(dict.fromkeys(check["name"] for check in found))
    head = ["HOST", "STATE", *(name.upper() for name in names)]
    rows = [_row(host, judgement, names) for host, judgement in verdicts.items()]
    return "\n".join([*_aligned([head, *rows]), *_remarks(verdicts)])


def _row(host: str, judgement: Document, names: Sequence[str]) -> list[str]:
    found = {check["name"]: check["found"] for check in judgement["checks"]}
    return [host, judgement["level"], *(found.get(name) or "-" for name in names)]


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def _remarks(verdicts: Mapping[str, Document]) -> list[str]:
    remarks = [
        (check["level"], f"{check['level']}: {host}: {check['name']}: {check['problem']}")
        for host, judgement in verdicts.items()
        for check in judgement["checks"]
        if check["level"] != Level.OK
    ]
    return [text for level in reversed(_ORDER) for of_level, text in remarks if of_level == level]


def version(text: str | None) -> tuple[int, ...]:
    """Return the numbers that a version begins with, () if it has none: 19.03.5~3-0 is 19, 3, 5."""
    found = re.match(r"v?(\d+(?:\.\d+)*)", text or "")
    return tuple(int(part) for part in found[1].split(".")) if found else ()
