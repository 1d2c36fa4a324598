"""Usage as a table and as a versioned document for programs. Pure."""

import math
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from gpushare.cli.lib.text_table import ABSENT, TextTable, mib
from gpushare.cli.top.usage import UsageTable
from gpushare.monitoring import catalogue
from gpushare.monitoring.catalogue import Metric
from gpushare.overview.documents import document


class _Column(NamedTuple):
    """A number: its header in a table, its key in a document, and its text in a cell."""

    header: str
    key: str
    show: Callable[[float], str]


_VALUE: Final = _Column("VALUE", "value", "{:g}".format)
_COLUMNS: Final[dict[Metric, _Column]] = {
    catalogue.CONTAINER_USED: _Column("USED", "usedBytes", mib),
    catalogue.CONTAINER_ALLOCATED: _Column("ALLOCATED", "allocatedBytes", mib),
    catalogue.CONTAINER_UTILIZATION: _Column("UTILIZATION", "utilization", "{:.0%}".format),
    catalogue.CARD_USED: _Column("USED", "usedBytes", mib),
    catalogue.CARD_MEMORY: _Column("MEMORY", "memoryBytes", mib),
    catalogue.CARD_UTILIZATION: _Column("UTILIZATION", "utilization", "{:.0%}".format),
    catalogue.CARD_TEMPERATURE: _Column("TEMPERATURE", "temperatureCelsius", "{:.0f} °C".format),
    catalogue.CARD_POWER: _Column("POWER", "powerWatts", "{:.0f} W".format),
}


def _columns(usage: UsageTable) -> list[_Column]:
    return [_VALUE] if usage.metrics is None else [_COLUMNS[metric] for metric in usage.metrics]


def table(usage: UsageTable) -> TextTable:
    """For a terminal."""
    columns = _columns(usage)
    rows = tuple(
        (*(label or ABSENT for label in labels), *map(_cell, columns, numbers))
        for labels, numbers in usage.rows
    )
    labels = (_label(label, usage).upper() for label in usage.labels)
    return TextTable((*labels, *(column.header for column in columns)), rows)


def _label(name: str, usage: UsageTable) -> str:
    """The name of a label of our own documents; series of a metric keep those of the exporters."""
    return "gpu" if name == "card" and usage.metrics is not None else name


def _cell(column: _Column, number: float | None) -> str:
    return ABSENT if number is None else column.show(number)


def usage_document(usage: UsageTable) -> dict[str, Any]:
    """For programs: labels are text, numbers are numbers, unknown values are null."""
    keys = (*(_label(label, usage) for label in usage.labels), *(column.key for column in _columns(usage)))
    items = [
        dict(zip(keys, (*(label or None for label in labels), *map(_exact, numbers)), strict=True))
        for labels, numbers in usage.rows
    ]
    return document(usage.kind, items=items)


def _exact(number: float | None) -> float | None:
    """Integers without a fraction; JSON has no numbers that are not finite."""
    if number is None or not math.isfinite(number):
        return None
    whole = int(number)
    return whole if whole == number else number
