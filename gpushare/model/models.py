"""The one table of card models: data-centre cards that sharing is made for.

Others (GeForce, TITAN, unknown ones) are served too; they come last, and whoever wants can refuse
them by name.
"""

import re
from typing import Final

LISTED: Final = frozenset(
    "P4 P6 P40 P100 V100 V100S T4 T4G A2 A10 A10G A10M A16 A30 A30X A40 A100 A100X A800 "
    "L2 L4 L20 L40 L40S L40G H20 H100 H200 H800 GH200 B100 B200 B300 GB200 GB300".split()
)
"""Names as NVML spells them, without maker, family, bus and size (``Tesla V100-SXM2-16GB``)."""

_SEPARATORS: Final = re.compile(r"[\s\-_/]+")
_CONSUMER: Final = frozenset({"GEFORCE", "TITAN", "QUADRO", "RTX", "GTX"})


def is_listed(model: str) -> bool:
    """Whether a model name, as NVML gives it, is of the table."""
    words = {word.upper() for word in _SEPARATORS.split(model)}
    return bool(words & LISTED) and not words & _CONSUMER
