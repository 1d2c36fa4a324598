"""What fits as text, and as a versioned document for programs. Pure."""

from typing import Any, Final

import msgspec

from gpushare.cli.lib.text_table import ABSENT, TextTable
from gpushare.model.usage_documents import GpuFit, GpuFitList
from gpushare.overview.documents import document
from gpushare.overview.words import counted

_HEADERS: Final = ("GPU", "MEMORY", "MODE", "NODES", "OPEN", "LARGEST FREE", "PODS", "POOL", "TAINTS")


def fits_document(found: GpuFitList) -> dict[str, Any]:
    """For programs, with the fields of the usage API."""
    content = msgspec.to_builtins(found)
    return document(content.pop("kind"), **{key: content[key] for key in content if key not in _FRAME})


_FRAME: Final = ("apiVersion", "metadata")


def summary(found: GpuFitList) -> str:
    """The answer in one line."""
    asked = f"{counted(found.units, 'unit')} {_gpus(found.gpus)}"
    largest = f"The largest free block is {counted(found.largest_free_units, 'unit')} {_gpus(found.gpus)}."
    if not found.largest_free_units:
        largest = f"No node has a free unit {_gpus(found.gpus)}."
    if not found.fitting_pods:
        return f"No pod with {asked} fits now. {largest}\n"
    fit = "fits" if found.fitting_pods == 1 else "fit"
    return f"{counted(found.fitting_pods, 'pod')} with {asked} {fit} now. {largest}\n"


def _gpus(count: int) -> str:
    return "on one GPU" if count == 1 else f"on each of {count} GPUs"


def table(found: GpuFitList) -> TextTable:
    """One row for each kind of node."""
    return TextTable(_HEADERS, tuple(_row(each) for each in found.items))


def _row(each: GpuFit) -> tuple[str, ...]:
    return (
        each.model or ABSENT,
        f"{each.gpu_memory_mib} MiB" if each.gpu_memory_mib else ABSENT,
        each.mode or ABSENT,
        str(each.nodes),
        str(each.open_nodes),
        f"{each.largest_free_units} {each.unit or 'units'}",
        str(each.fitting_pods),
        ",".join(each.labels.values()) or ABSENT,
        ",".join(each.taints) or ABSENT,
    )
