"""The NVIDIA driver through NVML: which cards there are, whether they are well, what they report.

The only package that imports ``pynvml``. What belongs here: calls of NVML and their translation into
``gpushare.model.hardware``. What does not: decisions about cards.
"""

from gpushare.adapters.nvml.gpus import Nvml
from gpushare.adapters.nvml.library import Library, NvmlRefusal

__all__ = ["Library", "Nvml", "NvmlRefusal"]
