"""An account as a table, as CSV, and as a versioned document for programs. Pure."""

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Any, Final

from gpushare.cli.lib.text_table import TextTable
from gpushare.cli.report.accounting import Account
from gpushare.overview.documents import document, time_text
from gpushare.overview.hours import PARTS, Rounded, Span, numbers

REMAINDER: Final = "(no container)"
_HEADERS: Final = ("NAMESPACE", "WORKLOAD", "GPU-HOURS", "USED", "GIB-HOURS", "USED")
_CSV: Final = (
    *("namespace", "owner_kind", "owner_name"),
    *("allocated_gpu_hours", "used_gpu_hours", "allocated_gib_hours", "used_gib_hours"),
)


def table(account: Account) -> TextTable:
    """For a terminal; the last row is the total."""
    rows = [(row.namespace, _workload(*row.owner), *_texts(row.hours)) for row in account.rows]
    if account.remainder:
        rows.append(("", REMAINDER, *_texts(account.remainder)))
    return TextTable(_HEADERS, (*rows, ("TOTAL", "", *_texts(account.total))))


def comma_separated(account: Account) -> str:
    """One line for each row and the remainder; a sum over the lines is the total."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_CSV)
    writer.writerows((row.namespace, *row.owner, *_texts(row.hours)) for row in account.rows)
    if account.remainder:
        writer.writerow(("", "", REMAINDER, *_texts(account.remainder)))
    return out.getvalue()


def account_document(account: Account, span: Span, notes: Sequence[str]) -> dict[str, Any]:
    """For programs: hours with three decimals."""
    return document(
        "GpuUsageReport",
        start=time_text(span.start),
        end=time_text(span.end),
        stepSeconds=span.step_s,
        items=[
            {"namespace": row.namespace, "owner": row.owner._asdict(), **numbers(row.hours)}
            for row in account.rows
        ],
        remainder=numbers(account.remainder) if account.remainder else None,
        total=numbers(account.total),
        gaps=[{**gap.gpu._asdict(), "hours": round(float(gap.hours), 3)} for gap in account.gaps],
        notes=list(notes),
    )


def gap_lines(account: Account, span: Span) -> Iterator[str]:
    """One line for each GPU without data in a part of the time."""
    hours = span.step_s * span.steps / 3600
    for gap in account.gaps:
        missing = float(gap.hours)
        yield (
            f"no data of GPU {gap.gpu.card} of node {gap.gpu.node} for {missing:.2f} of {hours:.2f} h; "
            "nothing is counted in that time"
        )


def _workload(kind: str, name: str) -> str:
    return f"{kind.lower()}/{name}" if kind else name


def _texts(hours: Rounded) -> tuple[str, ...]:
    return tuple(f"{each / PARTS:.3f}" for each in hours)
