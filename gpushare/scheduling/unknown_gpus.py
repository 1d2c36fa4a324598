"""Annotations that name a model or a GPU which no node of the cluster has: a typing error, mostly."""

from collections.abc import Generator, Iterable
from typing import Final

from gpushare.contract import ANN_USE_MODELS, ANN_USE_UUIDS
from gpushare.model.gpu_choice import GpuChoice, is_model
from gpushare.scheduling.book import Book

_PER_STEP: Final = 500
"""Nodes between two yields: their GPUs are read in 1 ms."""
_SHOWN: Final = 5


def unknown_steps(books: Iterable[Book], choice: GpuChoice) -> Generator[None, None, str]:
    """What is wrong with the choice, and what the cluster has instead; empty if some GPU is as it names."""
    models: set[str] = set()
    uuids: set[str] = set()
    for number, book in enumerate(books, start=1):
        models.update(usage.card.model for usage in book.usages)
        uuids.update(usage.card.uuid for usage in book.usages)
        if number % _PER_STEP == 0:
            yield
    models.discard("")
    uuids.discard("")
    if choice.use_models and not any(is_model(name, model) for name in choice.use_models for model in models):
        return f"{choice.part(ANN_USE_MODELS)}: no GPU of the cluster is one; {_there(models)}"
    if choice.use_uuids and choice.use_uuids.isdisjoint(uuids):
        return f"{choice.part(ANN_USE_UUIDS)}: no GPU of the cluster has it; {_there(uuids)}"
    return ""


def _there(names: set[str]) -> str:
    """The names in the cluster, of which a reader compares few."""
    shown = ", ".join(sorted(names)[:_SHOWN])
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"there are {shown}{more}" if names else "none is published"
