"""What a host's files say of its system, kernel, disk and control groups.

Runs on the target, so the standard library only, and Python 2.7 to 3.x: the oldest systems that are
looked at bring nothing newer. What does not belong here: cards, programs, and any judgement. Every
function takes ``root``, the folder that stands for ``/``; a file that is not there is an answer.
"""

from __future__ import absolute_import, division, print_function

import io
import os

__metaclass__ = type

MIB = 1 << 20
_HEADERS = ("lib/modules/{0}/build", "usr/src/linux-headers-{0}", "usr/src/kernels/{0}")


def read_text(*parts):
    """Return the text of a file, or None where it cannot be read."""
    try:
        with io.open(os.path.join(*parts), encoding="utf-8", errors="replace") as file:
            return file.read()
    except (IOError, OSError):
        return None


def names_in(*parts):
    """Return the sorted names in a folder; none where it cannot be read."""
    try:
        return sorted(os.listdir(os.path.join(*parts)))
    except OSError:
        return []


def assignments(text):
    """Return the ``KEY=value`` lines of a file that shells read, quotes taken off."""
    pairs = (line.split("=", 1) for line in (text or "").splitlines() if "=" in line and line[:1] != "#")
    return dict((key.strip(), value.strip().strip("\"'")) for key, value in pairs)


def operating_system(root):
    """Return ``id``, ``version`` and ``name``, of os-release(5).

    CentOS 7 says ``7`` there and the whole version in /etc/centos-release.
    """
    release = assignments(read_text(root, "etc/os-release") or read_text(root, "usr/lib/os-release"))
    version = release.get("VERSION_ID", "")
    for word in (read_text(root, "etc/centos-release") or "").split():
        if version and word.startswith(version + "."):
            version = ".".join(word.split(".")[:2])
    return {"id": release.get("ID", ""), "version": version, "name": release.get("PRETTY_NAME", "")}


def kernel(root, release):
    """Return ``release`` and whether headers are there that modules can be built with."""
    # A link to a removed tree is no tree: exists() follows it.
    headers = any(os.path.exists(os.path.join(root, path.format(release))) for path in _HEADERS)
    return {"release": release, "headers": headers}


def disk(root, paths):
    """Return free and total MiB for each path, of the file system that it is, or will be, on."""
    return dict((path, _space(os.path.join(root, path.lstrip("/")))) for path in paths)


def _space(path):
    while not os.path.exists(path):
        path = os.path.dirname(path)
    room = os.statvfs(path)
    return {
        "free_mib": room.f_bavail * room.f_frsize // MIB,
        "size_mib": room.f_blocks * room.f_frsize // MIB,
    }


def cgroup_version(root):
    """Return ``v2``, ``v1``, ``hybrid`` (controllers in v1, v2 mounted beside them) or ``none``."""
    top = os.path.join(root, "sys/fs/cgroup")
    if os.path.exists(os.path.join(top, "cgroup.controllers")):
        return "v2"
    groups = [name for name in names_in(top) if os.path.exists(os.path.join(top, name, "cgroup.procs"))]
    if not groups:
        return "none"
    return "hybrid" if "unified" in groups else "v1"
