"""Checks the requirements of real kubelets on this machine.

What belongs here: finding requirements, and reporting missing ones with the remedy. What does not: installing
them (``.ci/packages``).
"""

import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from devkit.errors import DevkitError
from testbed import cgroups
from testbed.kubelets.spec import RUNC
from testbed.programs import build, debian
from testbed.programs.binaries import variable_of

_CNI_FOLDERS = (Path("/usr/lib/cni"), Path("/opt/cni/bin"))
_CNI_PLUGINS = ("host-local", "loopback", "ptp")
_PROGRAMS = {
    "ip": "iproute2",
    "iptables": "iptables",
    "mount": "mount",
    "unshare": "util-linux",
}
_BUILD = {"gcc": "gcc", "pkg-config": "pkg-config"}
_HEADER = Path("/usr/include/seccomp.h")
_CAPABILITIES = {12: "CAP_NET_ADMIN", 19: "CAP_SYS_PTRACE", 21: "CAP_SYS_ADMIN", 27: "CAP_MKNOD"}


@dataclass(frozen=True)
class KubeletNeeds:
    """Files of the machine: the folder of CNI plugins, and a static busybox."""

    cni: Path
    busybox: Path


def look(cgroup_root: Path = cgroups.ROOT, cni_folders: Sequence[Path] = _CNI_FOLDERS) -> KubeletNeeds:
    """Return the files; raise DevkitError with everything that is missing."""
    missing = list(_missing(cgroup_root))
    cni, busybox = _cni_folder(cni_folders), debian.static_busybox()
    if cni is None:
        missing.append("CNI plugins (apt-get install containernetworking-plugins)")
    if busybox is None:
        missing.append("a static busybox (.ci/packages demo)")
    if missing or cni is None or busybox is None:
        raise DevkitError(f"a node with a real kubelet cannot run here; missing: {'; '.join(missing)}")
    return KubeletNeeds(cni, busybox)


def _missing(cgroup_root: Path) -> Iterator[str]:
    effective = _effective_capabilities(Path("/proc/self/status").read_text())
    if absent := [name for bit, name in _CAPABILITIES.items() if not effective >> bit & 1]:
        yield f"the capabilities {', '.join(absent)} (run as root)"
    yield from _missing_cgroups(cgroup_root)
    is_built = build.present([RUNC])
    for program, package in (_PROGRAMS if is_built else {**_PROGRAMS, **_BUILD}).items():
        if shutil.which(program) is None:
            yield f"the program {program} (apt-get install {package})"
    if not is_built and not _HEADER.exists():
        yield f"{_HEADER}, to build runc (apt-get install libseccomp-dev, or set {variable_of(RUNC)})"


def _missing_cgroups(root: Path) -> Iterator[str]:
    hierarchies = cgroups.hierarchies(root)
    if not hierarchies:
        yield f"cgroups in {root} (mount -t cgroup2 none {root})"
    if not all(os.access(hierarchy, os.W_OK) for hierarchy in hierarchies):
        yield f"write access to {root} (mount it read-write)"
    if cgroups.is_unified(root) and (lacking := cgroups.lacking(root)):
        yield (
            f"the controllers {', '.join(lacking)} for cgroups below {root} "
            "(in a container: move its processes to a child, then enable them in cgroup.subtree_control)"
        )


def _effective_capabilities(status: str) -> int:
    lines = (line.split() for line in status.splitlines())
    return next(int(words[1], 16) for words in lines if words[:1] == ["CapEff:"])


def _cni_folder(folders: Sequence[Path]) -> Path | None:
    return next(
        (folder for folder in folders if all((folder / each).exists() for each in _CNI_PLUGINS)), None
    )
