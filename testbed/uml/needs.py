"""Checks the requirements of a machine with its own kernel.

What does not belong here: installing them (``.ci/packages``).
"""

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from devkit.errors import DevkitError
from testbed.programs import debian
from testbed.uml.wiring import Kernel

_KERNEL: Final = "linux.uml"
_TAP: Final = Path("/dev/net/tun")
_PROGRAMS: Final = {
    "ip": "iproute2",
    "mkfs.ext4": "e2fsprogs",
    "mmdebstrap": "mmdebstrap",
    "nsenter": "util-linux",
    "unshare": "util-linux",
}
_TRACE: Final = "import ctypes, sys; sys.exit(ctypes.CDLL(None).ptrace(0, 0, 0, 0) != 0)"


@dataclass(frozen=True)
class UmlNeeds:
    """The kernel and a static busybox."""

    kernel: Kernel
    busybox: Path


def look() -> UmlNeeds:
    """Return the files; raise DevkitError with everything that is missing."""
    missing = list(_missing())
    kernel, busybox = _kernel(), debian.static_busybox()
    if kernel is None:
        missing.append("user-mode Linux (.ci/packages all)")
    if busybox is None:
        missing.append("a static busybox (.ci/packages test)")
    if missing or kernel is None or busybox is None:
        raise DevkitError(f"a node with its own kernel cannot run here; missing: {'; '.join(missing)}")
    return UmlNeeds(Kernel(kernel), busybox)


def _missing() -> Iterator[str]:
    if platform.machine() != "x86_64":
        yield f"an x86_64 processor (this is {platform.machine()})"
    if os.geteuid() != 0:
        yield "root privileges"
    if not os.access(_TAP, os.R_OK | os.W_OK):
        yield f"access to {_TAP} (modprobe tun)"
    if not _can_trace():
        yield "permission to trace processes, ptrace(2)"
    for program, package in _PROGRAMS.items():
        if shutil.which(program) is None:
            yield f"the program {program} (apt-get install {package})"


def _can_trace() -> bool:
    return subprocess.run([sys.executable, "-I", "-S", "-c", _TRACE], check=False).returncode == 0  # noqa: S603


def _kernel() -> Path | None:
    try:
        return debian.program(_KERNEL)
    except DevkitError:
        return None
