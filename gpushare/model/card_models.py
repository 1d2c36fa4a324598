"""Names of GPU models: which are data-centre GPUs, names as label values, the size of a context.

Other models (GeForce, TITAN, workstation GPUs, unknown ones) work too; administrators can refuse them.
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
_OTHER_WORDS: Final = frozenset(
    ("GEFORCE", "TITAN", "GTX", "RTX", "QUADRO", "NVS", "CMP", "LAPTOP", "ORIN", "THOR", "GB10")
)
"""In names of consumer, workstation and mining GPUs, and of those that share the memory of their host."""
_WORKSTATION: Final = re.compile(r"T[0-9]{3,4}")
"""``NVIDIA T1000``, unlike ``Tesla T4``."""
_VIRTUAL: Final = re.compile(r"-[0-9]+(-[0-9]+)?[ABCQ](ME)?$")
"""The profile of a vGPU, ``NVIDIA L40S-48C`` or ``GRID RTX6000-4Q``. Its host is in a data centre."""
_SERVER: Final = "SERVER EDITION"
"""Workstation brands without a fan: ``NVIDIA RTX PRO 6000 Blackwell Server Edition``."""
_DATA_CENTRE_BRANDS: Final = frozenset((2, 4, 7, 8, 9, 10, 11, 14))
_OTHER_BRANDS: Final = frozenset((1, 3, 5, 6, 12, 13, 15, 16))
"""Values of ``nvmlBrandType_t``: Tesla, GRID, vApps, vPC, vCS, vWS, cloud gaming, NVIDIA (as of an A100); and
Quadro, NVS, GeForce, TITAN, Quadro RTX, NVIDIA RTX, GeForce RTX, TITAN RTX."""
_MAX_LABEL: Final = 63
_NOT_IN_LABELS: Final = re.compile(r"[^A-Za-z0-9_.]+")


def is_data_centre(model: str, brand: int | None = None) -> bool:
    """Whether that is a data-centre GPU, by its name from NVML and by NVML's brand, None if unknown.

    Without a brand, as on the PCI bus or from an agent that does not report it, only known models are.
    """
    name = model.upper()
    if _VIRTUAL.search(name) or _SERVER in name:
        return True
    words = set(_SEPARATORS.split(name))
    if brand in _OTHER_BRANDS or words & _OTHER_WORDS or any(map(_WORKSTATION.fullmatch, words)):
        return False
    return brand in _DATA_CENTRE_BRANDS or bool(words & LISTED)


def initial_context_mib(model: str) -> int:
    """The size of a CUDA context in MiB, until one has been measured on the GPU.

    Known are 121 on a V100 (driver 418), and 518 on an H100 and an H200 (driver 580), which stand for GPUs
    with the same chip or a larger one. Others have the small size. Too small a size lets the first programs
    of a GPU go beyond their limit by the difference; too large a one refuses programs that fit, and again
    after each restart, because they never run long enough to be measured.
    """
    words = set(_SEPARATORS.split(model.upper()))
    large = words & _LARGE_CONTEXTS and not words & _OTHER_WORDS
    return _LARGE_CONTEXT_MIB if large else SMALLEST_CONTEXT_MIB


def label_value(text: str) -> str | None:
    """The text as a label value, ``Tesla-V100-SXM2-16GB``; None if no character is valid."""
    value = _NOT_IN_LABELS.sub("-", text)
    return value.strip("-_.")[:_MAX_LABEL].rstrip("-_.") or None
