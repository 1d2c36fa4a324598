"""Findings as text, and as a versioned document for programs. Pure."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

from gpushare.cli.doctor.verdict import CheckFinding, Status
from gpushare.overview.documents import document
from gpushare.overview.words import counted

_MARKS: Final = {
    Status.OK: "ok",
    Status.WARNING: "WARNING",
    Status.FAILED: "FAILED",
    Status.UNKNOWN: "unknown",
}
_WIDTH: Final = max(map(len, _MARKS.values()))
_WAY_TO_RIGHTS: Final = (
    "An administrator of the cluster has these rights. A group under monitoring.viewers of gpushare may read "
    "nodes, pods and metrics."
)


def diagnosis_document(findings: Sequence[CheckFinding]) -> dict[str, Any]:
    """Every check, and the number of checks by status."""
    return document("Diagnosis", summary=_counts(findings), checks=[_check(each) for each in findings])


def _check(each: CheckFinding) -> dict[str, Any]:
    return {
        "name": each.check.name,
        "title": each.check.title,
        "status": str(each.verdict.status),
        "cause": each.verdict.cause,
        "command": each.verdict.command or None,
        "missingRight": each.verdict.right or None,
    }


def text(findings: Sequence[CheckFinding]) -> str:
    """For a terminal: a line for a check, and the next command below a problem; then the missing rights."""
    return "\n".join([*_lines(findings), *_missing(findings), "", _summary(findings)]) + "\n"


def _lines(findings: Sequence[CheckFinding]) -> Iterator[str]:
    title = max(len(each.check.title) for each in findings)
    for each in findings:
        verdict = each.verdict
        if verdict.right:
            continue
        yield f"{_MARKS[verdict.status]:<{_WIDTH}}  {each.check.title:<{title}}  {verdict.cause}"
        if verdict.command and verdict.status is not Status.OK:
            yield f"{'':<{_WIDTH}}  {'':<{title}}  → {verdict.command}"


def _missing(findings: Sequence[CheckFinding]) -> Iterator[str]:
    """The rights that this account lacks, and how many checks need each."""
    checks = Counter(each.verdict.right for each in findings if each.verdict.right)
    if checks:
        yield from ("", "Not checked, because this account lacks rights:")
        yield from (f"  {right}: {counted(number, 'check')}" for right, number in checks.items())
        yield _WAY_TO_RIGHTS


def _summary(findings: Sequence[CheckFinding]) -> str:
    return ", ".join(f"{number} {status}" for status, number in _counts(findings).items() if number)


def _counts(findings: Sequence[CheckFinding]) -> dict[str, int]:
    counts = Counter(each.verdict.status for each in findings)
    return {str(status): counts[status] for status in Status}
