"""Garbage collection in a daemon that keeps hundred thousands of objects of the API server.

They live long and have no reference cycles, so they are excluded; to examine 45,000 pods takes half a second.
For all other objects, rare collections suffice.
"""

import gc
from typing import Final

_THRESHOLDS: Final = (20_000, 100, 50)
"""20,000 young objects are examined in 10 ms."""


def exclude_modules() -> None:
    """Exclude what lives as long as the process. Call it once, before objects are listed."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)


def exclude_present() -> None:
    """Exclude the objects of now. Call it after each slice of a list."""
    gc.freeze()
