"""Checks the requirements of hosts on this machine.

What does not belong here: installing them (``.ci/packages``).
"""

import os
import shutil
from typing import Final

from devkit.errors import DevkitError
from testbed.programs.debian import static_busybox

_PROGRAMS: Final = {
    "apt-ftparchive": "apt-utils",
    "dpkg-deb": "dpkg",
    "gpg": "gpg",
    "ip": "iproute2",
    "mmdebstrap": "mmdebstrap",
    "nsenter": "util-linux",
    "ssh": "openssh-client",
    "systemd-nspawn": "systemd-container",
}


def look() -> None:
    """Raise DevkitError with everything that is missing."""
    missing = [
        f"{program} (apt-get install {package})"
        for program, package in _PROGRAMS.items()
        if not shutil.which(program)
    ]
    if static_busybox() is None:
        missing.append("a static busybox (.ci/packages test)")
    if os.geteuid() != 0:
        missing.append("root privileges")
    if missing:
        raise DevkitError(f"hosts with systemd cannot run here; missing: {', '.join(missing)}")
