"""GPU-hours and GiB-hours: a time in steps, amounts, and their rounding to sums that add up. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import starmap
from typing import Final, NamedTuple

PARTS: Final = 1000
"""Amounts are rounded to this part of an hour."""
GIB: Final = 2**30
HOUR_S: Final = 3600


@dataclass(frozen=True, slots=True)
class Span:
    """A time: ``steps`` steps of ``step_s`` seconds until ``end``, in seconds since 1970."""

    end: float
    step_s: int
    steps: int

    @property
    def start(self) -> float:
        """When it begins."""
        return self.end - self.step_s * self.steps

    @property
    def text(self) -> str:
        """As PromQL writes a subquery."""
        return f"[{self.step_s * self.steps}s:{self.step_s}s]"


class Hours(NamedTuple):
    """Four amounts, in hours."""

    allocated_gpu: Fraction = Fraction(0)
    used_gpu: Fraction = Fraction(0)
    allocated_gib: Fraction = Fraction(0)
    used_gib: Fraction = Fraction(0)


class Rounded(NamedTuple):
    """The same in whole thousandths of an hour."""

    allocated_gpu: int
    used_gpu: int
    allocated_gib: int
    used_gib: int


def rounded(amounts: Sequence[Hours]) -> tuple[list[Rounded], Rounded]:
    """The amounts in whole thousandths of an hour, and their sum."""
    found = list(starmap(Rounded, zip(*map(apportioned, zip(*amounts, strict=True)), strict=True)))
    return found, Rounded(*map(sum, zip(*found, strict=True))) if found else Rounded(0, 0, 0, 0)


def numbers(hours: Rounded) -> dict[str, float]:
    """For documents: hours with three decimals, by their names there."""
    names = ("allocatedGpuHours", "usedGpuHours", "allocatedGibHours", "usedGibHours")
    return {name: each / PARTS for name, each in zip(names, hours, strict=True)}


def apportioned(amounts: Sequence[Fraction]) -> list[int]:
    """Amounts in whole thousandths whose sum is the rounded sum; each is less than one thousandth off."""
    exact = [amount * PARTS for amount in amounts]
    floors = [each.numerator // each.denominator for each in exact]
    missing = round(sum(exact, Fraction(0))) - sum(floors)
    largest = sorted(range(len(exact)), key=lambda i: (floors[i] - exact[i], i))
    for i in largest[:missing]:
        floors[i] += 1
    return floors
