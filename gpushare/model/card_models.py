"""Names of GPU models: the table of supported data-centre GPUs, names as label values, the size of a context.

Other models (GeForce, TITAN, unknown ones) work too; administrators can refuse them.
"""

import re
from typing import Final

_PASCAL: Final = ("P4", "P6", "P40", "P100")
_VOLTA: Final = ("V100", "V100S")
_TURING: Final = ("T4", "T4G")
_AMPERE: Final = ("A2", "A10", "A10G", "A10M", "A16", "A30", "A30X", "A40", "A100", "A100X", "A800")
_ADA: Final = ("L2", "L4", "L20", "L40", "L40S", "L40G")
_HOPPER: Final = ("H20", "H100", "H200", "H800", "GH200")
_BLACKWELL: Final = ("B100", "B200", "B300", "GB200", "GB300")
LISTED: Final = frozenset((*_PASCAL, *_VOLTA, *_TURING, *_AMPERE, *_ADA, *_HOPPER, *_BLACKWELL))
"""Names as NVML spells them, without maker, family, bus and size (``Tesla V100-SXM2-16GB``)."""

_LARGE_CONTEXTS: Final = frozenset(("H100", "H200", "H800", "GH200", *_BLACKWELL))
_LARGE_CONTEXT_MIB: Final = 518
SMALLEST_CONTEXT_MIB: Final = 121
"""A CUDA context on a V100 with driver 418: nvidia-smi shows 3193 MiB for 3072."""
_SEPARATORS: Final = re.compile(r"[\s\-_/]+")
_CONSUMER: Final = frozenset({"GEFORCE", "TITAN", "QUADRO", "RTX", "GTX"})
_MAX_LABEL: Final = 63
_NOT_IN_LABELS: Final = re.compile(r"[^A-Za-z0-9_.]+")


def is_listed(model: str) -> bool:
    """Whether a model name from NVML is in the table."""
    return _is_one_of(model, LISTED)


def initial_context_mib(model: str) -> int:
    """The size of a CUDA context in MiB, until one has been measured on the GPU.

    Known are 121 on a V100 (driver 418), and 518 on an H100 and an H200 (driver 580), which stand for GPUs
    with the same chip or a larger one. Others have the small size. Too small a size lets the first programs
    of a GPU go beyond their limit by the difference; too large a one refuses programs that fit, and again
    after each restart, because they never run long enough to be measured.
    """
    return _LARGE_CONTEXT_MIB if _is_one_of(model, _LARGE_CONTEXTS) else SMALLEST_CONTEXT_MIB


def _is_one_of(model: str, names: frozenset[str]) -> bool:
    words = {word.upper() for word in _SEPARATORS.split(model)}
    return bool(words & names) and not words & _CONSUMER


def label_value(text: str) -> str | None:
    """The text as a label value, ``Tesla-V100-SXM2-16GB``; None if no character is valid."""
    value = _NOT_IN_LABELS.sub("-", text)
    return value.strip("-_.")[:_MAX_LABEL].rstrip("-_.") or None
