"""A plan as a table, or as a document for programs."""

from collections.abc import Sequence
from typing import Any, Final

from gpushare.cli.defrag.plan import Help, Step
from gpushare.cli.lib.text_table import ABSENT, TextTable

_HEADERS: Final = ("STEP", "NAMESPACE", "POD", "PRIORITY", "FROM", "TO", "FOR", "WHY")


def table(helped: Sequence[Help]) -> TextTable:
    """One row for each pod to evict, in order."""
    rows = [(each, step) for each in helped for step in each.steps]
    return TextTable(_HEADERS, tuple(_row(number, *row) for number, row in enumerate(rows, 1)))


def _row(number: int, helped: Help, step: Step) -> tuple[str, ...]:
    pod = step.pod
    return (
        str(number),
        pod.namespace,
        pod.name,
        str(pod.priority),
        step.node,
        step.target or ABSENT,
        helped.pod.full_name,
        "fits elsewhere" if step.target else f"priority below {helped.pod.priority}",
    )


def left(helped: Sequence[Help]) -> list[str]:
    """The waiting pods for which nothing is done, and why."""
    return [f"pod {each.pod.full_name}: {each.reason}" for each in helped if each.reason]


def document(helped: Sequence[Help]) -> dict[str, Any]:
    """The plan for programs."""
    return {"kind": "GpuDefragPlan", "items": [_item(each) for each in helped]}


def _item(each: Help) -> dict[str, Any]:
    return {
        "namespace": each.pod.namespace,
        "name": each.pod.name,
        "priority": each.pod.priority,
        "node": each.node,
        "steps": [
            {
                "namespace": step.pod.namespace,
                "name": step.pod.name,
                "uid": step.pod.uid,
                "priority": step.pod.priority,
                "from": step.node,
                "to": step.target,
            }
            for step in each.steps
        ],
        "reason": each.reason or None,
    }
