"""Which start of the kernel driver this is, to tell what was recorded before the last one."""

from pathlib import Path
from typing import Final

_BOOT_ID: Final = Path("sys/kernel/random/boot_id")
_MODULE: Final = Path("module/nvidia")


def driver_start(proc: Path = Path("/proc"), sysfs: Path = Path("/sys")) -> str:
    """A text that changes with a reboot and when the driver is loaded again; empty if that is unknown.

    A folder of sysfs has another inode number each time the module is loaded (from Linux 4.14 on; before
    that, only a reboot is noticed). Without the module, as in WSL, only the boot counts.
    """
    try:
        boot = (proc / _BOOT_ID).read_text().strip()
    except (OSError, ValueError):
        return ""
    try:
        return f"{boot} {(sysfs / _MODULE).stat().st_ino}"
    except OSError:
        return boot
