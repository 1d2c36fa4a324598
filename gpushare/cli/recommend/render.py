"""Recommendations as a table, and as a versioned document for programs. Pure."""

from collections.abc import Sequence
from typing import Any, Final

from gpushare.cli.lib.text_table import ABSENT, TextTable, mib
from gpushare.cli.recommend.sizing import Basis, Comparison, Recommendation
from gpushare.overview.documents import document
from gpushare.overview.memory_units import NodeUnit

_HEADERS: Final = (
    *("NAMESPACE", "WORKLOAD", "CONTAINER", "PODS", "REQUEST", "LIMIT", "PEAK", "REFUSALS"),
    *("SUGGESTION", "BASIS"),
)


def table(found: Sequence[Recommendation], window: str) -> TextTable:
    """For a terminal; ``window`` is the searched time, such as ``7d``."""
    return TextTable(_HEADERS, tuple(_row(each, window) for each in found))


def rule(margin_percent: int) -> str:
    """The rule in one line."""
    return (
        f"Suggestion: peak + {margin_percent} % in whole units, at most the GPU; after refusals, what the "
        f"refused requests need + {margin_percent} %. Without a peak there is no suggestion.\n"
    )


def recommendations_document(
    found: Sequence[Recommendation], margin_percent: int, window_s: int | None
) -> dict[str, Any]:
    """For programs: amounts in bytes and units, unknown values are null."""
    items = [_item(each) for each in found]
    return document("RecommendationList", marginPercent=margin_percent, windowSeconds=window_s, items=items)


def _row(each: Recommendation, window: str) -> tuple[str, ...]:
    basis = _basis(each, window)
    if each.silent and each.basis is not Basis.NO_DATA:
        basis += f"; {each.silent} of {each.pods} pods without data"
    return (
        *(each.namespace, str(each.owner), each.container, str(each.pods)),
        _units(each.request, each.unit),
        *(mib(each.limit), mib(each.peak), ABSENT if each.refusals is None else str(each.refusals)),
        _suggestion(each),
        basis,
    )


def _basis(each: Recommendation, window: str) -> str:
    if each.basis is Basis.REFUSED:
        return f"{each.basis} needs {mib(each.needed)}"
    return f"peak of {window}" if each.basis is Basis.WINDOW else str(each.basis)


def _suggestion(each: Recommendation) -> str:
    if each.suggestion is None:
        return ABSENT
    text = _units(each.suggestion, each.unit)
    return text if each.verdict is Comparison.KEEP else f"{text} ({each.verdict})"


def _units(amount: int, unit: NodeUnit) -> str:
    return f"{amount} {unit or 'units'}"


def _item(each: Recommendation) -> dict[str, Any]:
    return {
        "namespace": each.namespace,
        "owner": each.owner._asdict(),
        "container": each.container,
        "pods": each.pods,
        "podsWithoutData": each.silent,
        "unit": each.unit.value or None,
        "requestUnits": each.request,
        "limitBytes": each.limit,
        "peakBytes": each.peak,
        "usedBytes": each.used,
        "refusals": each.refusals,
        "neededBytes": each.needed,
        "basis": str(each.basis),
        "suggestedUnits": each.suggestion,
        "verdict": str(each.verdict),
    }
