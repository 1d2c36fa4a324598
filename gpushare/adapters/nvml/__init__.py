"""The NVIDIA driver through NVML: inventory, health and readings of GPUs.

The only package that imports ``pynvml``. It calls NVML and translates the results into
``gpushare.model.hardware`` and ``gpushare.model.readings``; decisions about GPUs belong elsewhere.
"""

from gpushare.adapters.nvml.gpus import Nvml
from gpushare.adapters.nvml.library import Library, NvmlRefusal

__all__ = ["Library", "Nvml", "NvmlRefusal"]
