"""The results of a policy over all seeds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

from gpushare.simulation.run import Outcome

Results = Mapping[str, Sequence[Outcome]]
"""Policy → the outcome of each seed."""


@dataclass(frozen=True, slots=True)
class Summary:
    """Means over the seeds, in percent."""

    allocated: float
    fragmented: float
    refused_early: float
    refused: float


def summary(outcomes: Sequence[Outcome]) -> Summary:
    """The means of the outcomes."""
    return Summary(
        mean(each.allocated for each in outcomes),
        mean(each.fragmented for each in outcomes),
        mean(each.refused_early for each in outcomes),
        mean(each.refused for each in outcomes),
    )


def as_document(results: Results) -> dict[str, Any]:
    """For programs, in percent with three decimals."""
    return {"policies": {name: _policy(outcomes) for name, outcomes in results.items()}}


def _policy(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    found = summary(outcomes)
    return {
        "gpu_allocation_ratio": {
            "mean": round(found.allocated, 3),
            "seeds": [round(each.allocated, 3) for each in outcomes],
        },
        "refused_before_80": round(found.refused_early, 3),
        "refused": round(found.refused, 3),
        "fragmentation": round(found.fragmented, 3),
    }
