"""What hosts need of the machine, and what to do where it is missing.

What belongs here: looking. What does not: installing (``.ci/packages``).
"""

import os
import shutil
from typing import Final

from testbed.errors import TestbedError
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
    """Raise TestbedError that names everything that is missing."""
    missing = [
        f"{program} (apt-get install {package})"
        for program, package in _PROGRAMS.items()
        if not shutil.which(program)
    ]
    if static_busybox() is None:
        missing.append("a static busybox (.ci/packages test)")
    if os.geteuid() != 0:
        missing.append("the rights of root")
    if missing:
        raise TestbedError(f"hosts with systemd cannot run here; missing: {', '.join(missing)}")
