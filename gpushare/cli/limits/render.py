"""Limits of containers as a table and as a versioned document for programs. Pure."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from gpushare.cli.lib.text_table import ABSENT, TextTable, mib
from gpushare.overview.documents import document
from gpushare.overview.limits import ContainerLimit

_HEADERS: Final = (
    *("NAMESPACE", "POD", "CONTAINER", "NODE", "GPU"),
    *("LIMIT", "USED", "PEAK", "REFUSALS", "REFUSED"),
)
_WIDE: Final = ("DRIVER", "UNCOUNTED", "UUID")


def table(found: Sequence[ContainerLimit], *, wide: bool) -> TextTable:
    """For a terminal; ``wide`` adds the usage from the driver and the UUID of the GPU."""
    return TextTable((*_HEADERS, *(_WIDE if wide else ())), tuple(_row(each, wide=wide) for each in found))


def limits_document(found: Sequence[ContainerLimit]) -> dict[str, Any]:
    """For programs: amounts in bytes, unknown values are null."""
    return document("ContainerLimitList", items=msgspec.to_builtins(found))


def _row(limit: ContainerLimit, *, wide: bool) -> tuple[str, ...]:
    refusals = ABSENT if limit.refusals is None else str(limit.refusals)
    amounts = map(mib, (limit.limit_bytes, limit.used_bytes, limit.peak_bytes))
    refused = (refusals, mib(limit.largest_refused_bytes))
    row = (limit.namespace, limit.pod, limit.container, limit.node, limit.card, *amounts, *refused)
    return (*row, mib(limit.driver_bytes), mib(limit.uncounted_bytes), limit.uuid) if wide else row
