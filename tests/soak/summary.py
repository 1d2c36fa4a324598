"""The result of a soak, as Markdown."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Summary:
    """A soak that found no over-commitment and no lost pod.

    ``minutes`` is the duration of load and faults, ``seconds`` that of the whole run. ``ran`` and
    ``finished`` count pods by kind of node, ``recounts`` the looks at the containers of its nodes,
    ``replaced`` the pods created again by reason, ``exits`` the processes that ended by themselves.
    """

    seed: int
    minutes: float
    seconds: int
    actions: Mapping[str, int]
    created: int
    ran: Mapping[str, int]
    finished: Mapping[str, int]
    replaced: Mapping[str, int]
    exits: Mapping[str, int]
    recounts: Mapping[str, int]
    longest_recovery_s: float

    def markdown(self) -> str:
        """Return a table of two columns."""
        rows = {
            "seed": self.seed,
            "load and faults": f"{self.minutes:g} min",
            "whole run": f"{self.seconds} s",
            "actions": _counts(self.actions),
            "pods created": self.created,
            "pods that ran": _counts(self.ran),
            "pods that finished": _counts(self.finished),
            "pods created again": _counts(self.replaced),
            "processes that ended by themselves": _counts(self.exits),
            "recounts of the running containers": _counts(self.recounts),
            "over-commits": 0,
            "lost pods": 0,
            "longest recovery": f"{self.longest_recovery_s:.1f} s",
        }
        return "\n".join(
            ["| soak | |", "|---|---|", *(f"| {key} | {value} |" for key, value in rows.items())]
        )


def _counts(counts: Mapping[str, int]) -> str:
    ordered = sorted(counts.items(), key=lambda item: -item[1])
    return ", ".join(f"{number} {name}" for name, number in ordered) or "0"
