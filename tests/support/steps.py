"""Generators of the pure core that yield between two steps."""

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")


def finished(steps: Generator[None, None, T]) -> T:
    """The result of all steps."""
    return counted(steps)[1]


def counted(steps: Generator[None, None, T]) -> tuple[int, T]:
    """The number of steps after which others could work, and the result."""
    count = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return count, end.value
        count += 1
