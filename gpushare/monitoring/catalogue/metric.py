"""What a metric is."""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["counter", "gauge", "histogram", "unknown"]
"""``unknown`` is for counts whose name, which others gave, has no ``_total`` at its end."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric family. Counters are named without the ``_total`` that the text format adds."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The name of its samples, as queries have it."""
        return f"{self.name}_total" if self.kind == "counter" else self.name
