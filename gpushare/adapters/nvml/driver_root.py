"""The NVML library of a driver whose files are not in the root folder of this process.

The driver container of the GPU Operator, for example, has its root folder at ``/run/nvidia/driver``.
"""

import ctypes
from pathlib import Path
from typing import Final

from gpushare.errors import GpuError

SONAME: Final = "libnvidia-ml.so.1"
_FOLDERS: Final = (
    "usr/lib64",
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "lib64",
    "lib/x86_64-linux-gnu",
    "lib/aarch64-linux-gnu",
)
"""Those in which NVIDIA's device plugin searches."""


def load(root: Path) -> None:
    """Load the library below ``root``. ``pynvml`` uses it then, because it has the name that it asks for.

    Raises GpuError if there is none, or if it cannot be loaded.
    """
    path = next((path for folder in _FOLDERS if (path := root / folder / SONAME).is_file()), None)
    if path is None:
        raise GpuError(
            f"--driver-root={root} has no {SONAME} (in {', '.join(_FOLDERS)}): check that the driver is "
            "installed there, and in a container that the folder of the node is mounted"
        )
    try:
        ctypes.CDLL(str(path))
    except OSError as error:
        raise GpuError(f"--driver-root={root}: {path} cannot be loaded: {error}") from error
