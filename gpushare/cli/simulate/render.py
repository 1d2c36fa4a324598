"""The comparison of policies as text. Pure."""

from collections.abc import Sequence
from typing import Final

from gpushare.cli.lib.text_table import TextTable
from gpushare.simulation.results import Results, summary
from gpushare.simulation.run import Outcome

_HEADERS: Final = ("POLICY", "ALLOCATED", "LOWEST", "HIGHEST", "FRAGMENTED", "REFUSED BEFORE 80 %", "REFUSED")


def table(results: Results) -> TextTable:
    """One row for each policy, the one that allocates most first."""
    ordered = sorted(results.items(), key=lambda item: -summary(item[1]).allocated)
    return TextTable(_HEADERS, tuple(_row(name, outcomes) for name, outcomes in ordered))


def _row(name: str, outcomes: Sequence[Outcome]) -> tuple[str, ...]:
    mean = summary(outcomes)
    allocated = [each.allocated for each in outcomes]
    shown = (
        mean.allocated,
        min(allocated),
        max(allocated),
        mean.fragmented,
        mean.refused_early,
        mean.refused,
    )
    return (name, *(f"{value:.2f} %" for value in shown))
