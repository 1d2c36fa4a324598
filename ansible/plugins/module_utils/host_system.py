"""System, kernel, disks and cgroups of a host, from its files.

Runs on the target: standard library only, Python 2.7 to 3.x, because the oldest supported systems have
nothing newer. What does not belong here: GPUs, programs and checks. Every function takes ``root``, the folder
to use as ``/``; missing files are no errors.
"""

from __future__ import absolute_import, division, print_function

import io
import os

__metaclass__ = type

MIB = 1 << 20
_SECURE_BOOT = "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
_APT = "usr/bin/apt-get"
_APT_LIBRARIES = tuple(
    "usr/lib/{0}/dist-packages/apt/__init__.py".format(python) for python in ("python3", "python2.7")
)
"""Of the interpreters that Ansible's modules change to for the library."""
_HEADERS = ("lib/modules/{0}/build", "usr/src/linux-headers-{0}", "usr/src/kernels/{0}")


def read_text(*parts):
    """Return the text of a file, or None if it cannot be read."""
    try:
        with io.open(os.path.join(*parts), encoding="utf-8", errors="replace") as file:
            return file.read()
    except (IOError, OSError):
        return None


def names_in(*parts):
    """Return the sorted names in a folder, an empty list if it cannot be read."""
    try:
        return sorted(os.listdir(os.path.join(*parts)))
    except OSError:
        return []


def assignments(text):
    """Return the ``KEY=value`` lines of shell syntax, without quotation marks."""
    pairs = (line.split("=", 1) for line in (text or "").splitlines() if "=" in line and line[:1] != "#")
    return dict((key.strip(), value.strip().strip("\"'")) for key, value in pairs)


def operating_system(root):
    """Return ``id``, ``version``, ``name`` and ``like`` (IDs of similar systems) from os-release(5).

    CentOS 7 has ``7`` there and the full version in /etc/centos-release.
    """
    release = assignments(read_text(root, "etc/os-release") or read_text(root, "usr/lib/os-release"))
    version = release.get("VERSION_ID", "")
    for word in (read_text(root, "etc/centos-release") or "").split():
        if version and word.startswith(version + "."):
            version = ".".join(word.split(".")[:2])
    return {
        "id": release.get("ID", ""),
        "version": version,
        "name": release.get("PRETTY_NAME", ""),
        "like": release.get("ID_LIKE", ""),
    }


def kernel(root, release):
    """Return ``release`` and ``headers``: whether kernel modules can be built."""
    # exists() follows links, so a link to a removed tree does not count.
    headers = any(os.path.exists(os.path.join(root, path.format(release))) for path in _HEADERS)
    return {"release": release, "headers": headers}


def apt_library(root):
    """Return whether Ansible's modules can read the packages of apt, None without apt."""
    if not os.path.exists(os.path.join(root, _APT)):
        return None
    return any(os.path.exists(os.path.join(root, path)) for path in _APT_LIBRARIES)


def secure_boot(root):
    """Return whether the firmware verifies signatures: true, false, or None without UEFI.

    The value of the variable follows its attributes, 4 bytes:
    https://www.kernel.org/doc/html/latest/filesystems/efivarfs.html.
    """
    try:
        with io.open(os.path.join(root, _SECURE_BOOT), "rb") as file:
            return file.read()[4:5] == b"\x01"
    except (IOError, OSError):
        return None


def selinux(root):
    """Return ``enforcing``, ``permissive`` or ``disabled``."""
    enforce = read_text(root, "sys/fs/selinux/enforce")
    if enforce is None:
        return "disabled"
    return "enforcing" if enforce.strip() == "1" else "permissive"


def disk(root, paths):
    """Return path to free and total MiB of its file system; a path may not exist yet."""
    return dict((path, _space(os.path.join(root, path.lstrip("/")))) for path in paths)


def _space(path):
    while not os.path.exists(path):
        path = os.path.dirname(path)
    stat = os.statvfs(path)
    return {
        "free_mib": stat.f_bavail * stat.f_frsize // MIB,
        "size_mib": stat.f_blocks * stat.f_frsize // MIB,
    }


def is_mounted(root, path):
    """Return whether a whole filesystem is mounted on ``path``."""
    lines = (line.split() for line in (read_text(root, "proc/self/mountinfo") or "").splitlines())
    return any(line[3:5] == ["/", path] for line in lines)


def mount_of(root, path):
    """Return the mount point that ``path`` is on, and the options of this mount; None if unknown."""
    top = os.path.realpath(root)
    real = "/" + os.path.relpath(os.path.realpath(os.path.join(top, path.lstrip("/"))), top)
    found = None
    # Of several mounts on one path, the last one is on top.
    for point, options in _mounts(root):
        if _is_below(real, point) and (found is None or _is_below(point, found["point"])):
            found = {"point": point, "options": options.split(",")}
    return found


def _mounts(root):
    lines = (line.split() for line in (read_text(root, "proc/self/mountinfo") or "").splitlines())
    return [line[4:6] for line in lines if line[5:]]


def _is_below(path, parent):
    return (path.rstrip("/") + "/").startswith(parent.rstrip("/") + "/")


def cgroup_version(root):
    """Return ``v2``, ``v1``, ``hybrid`` (controllers in v1, v2 also mounted) or ``none``."""
    top = os.path.join(root, "sys/fs/cgroup")
    if os.path.exists(os.path.join(top, "cgroup.controllers")):
        return "v2"
    groups = [name for name in names_in(top) if os.path.exists(os.path.join(top, name, "cgroup.procs"))]
    if not groups:
        return "none"
    return "hybrid" if "unified" in groups else "v1"
