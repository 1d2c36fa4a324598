"""Paths of the isolation files on a node. Nothing here touches a disk.

<libraries>/current                         link to the version that new containers get
<libraries>/<version>/libgpushare.so        build that limits memory
<libraries>/<version>/libgpushare-launch.so build that also limits launches; mounted as libgpushare.so
<libraries>/<version>/ld.so.preload         one line: path of the library in the container
<state>/<directory>/limit                   limits of the container, writable by root only
<state>/<directory>/region                  usage of its processes, writable by everybody
<state>/<directory>/library                 link to the container's build of the library
<state>/<pod UID>_<container>               link to the container directory

A container directory has a number for a name, because Allocate creates it before the kubelet has confirmed
which pod the call was for: pods with equal requests may be confused.

Container runtimes create directories for missing mount sources and start the container. They cannot create
one in place of a link without target: the mount of ``library`` fails the start of a container whose library
is missing, before the runtime has created directories for the other mounts.
"""

import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

from gpushare.contract import ISOLATION_GUARD, ISOLATION_INSIDE, ISOLATION_LIBRARIES, ISOLATION_STATE, PRELOAD

CURRENT: Final = "current"
LIBRARY: Final = "libgpushare.so"
LAUNCH_LIBRARY: Final = "libgpushare-launch.so"
PRELOAD_FILE: Final = "ld.so.preload"
LIMIT: Final = "limit"
REGION: Final = "region"
GUARD: Final = "library"
PRELOAD_TEXT: Final = f"{ISOLATION_INSIDE}/{LIBRARY}\n"
VERSION_DIGITS: Final = 16
"""Length of a version: the first digits of a checksum over the libraries."""
_VERSION: Final = re.compile(rf"[0-9a-f]{{{VERSION_DIGITS}}}")
_DIRECTORY: Final = re.compile(r"[0-9a-f]{16}")


class IsolationDirs(NamedTuple):
    """Directories of libraries and state, the same on the node and in the agent's container."""

    libraries: Path = Path(ISOLATION_LIBRARIES)
    state: Path = Path(ISOLATION_STATE)


class HostMount(NamedTuple):
    """A file of the node and its path in a container."""

    host: str
    inside: str
    read_only: bool


class IsolationMounts(NamedTuple):
    """Isolation files mounted into a container; ``launches``: the build that also limits launches.

    ``version`` is the version of the library, ``directory`` the name of the container directory.
    """

    version: str
    directory: str
    launches: bool = False


class DirectoryOwner(NamedTuple):
    """The container that a container directory belongs to."""

    uid: str
    container: str


def is_version(name: str) -> bool:
    """Whether ``name`` is a valid directory name of a library version."""
    return bool(_VERSION.fullmatch(name))


def directory_name(number: int) -> str:
    """The name of the container directory with this number, which must be unique on the node."""
    return f"{number:016x}"


def is_directory_name(name: str) -> bool:
    """Whether ``name`` is a valid name of a container directory."""
    return bool(_DIRECTORY.fullmatch(name))


def link_of(state: Path, owner: DirectoryOwner) -> Path:
    """The link to a container's directory, which has its limit and region."""
    return state / f"{owner.uid}_{owner.container}"


def owner_of(name: str) -> DirectoryOwner | None:
    """The container that a link is named after; None if ``name`` is no name of a link."""
    uid, separator, container = name.partition("_")
    return DirectoryOwner(uid, container) if uid and separator and container else None


def build_of(dirs: IsolationDirs, mounts: IsolationMounts) -> Path:
    """The file of the library on the node."""
    return dirs.libraries / mounts.version / (LAUNCH_LIBRARY if mounts.launches else LIBRARY)


def bind_mounts(dirs: IsolationDirs, mounts: IsolationMounts) -> tuple[HostMount, ...]:
    """The bind mounts of a container: guard, library, ld.so.preload, limit and region."""
    own = dirs.state / mounts.directory
    build = build_of(dirs, mounts)
    return (
        HostMount(str(own / GUARD), ISOLATION_GUARD, read_only=True),
        HostMount(str(build), f"{ISOLATION_INSIDE}/{LIBRARY}", read_only=True),
        HostMount(str(build.with_name(PRELOAD_FILE)), PRELOAD, read_only=True),
        HostMount(str(own / LIMIT), f"{ISOLATION_INSIDE}/{LIMIT}", read_only=True),
        HostMount(str(own / REGION), f"{ISOLATION_INSIDE}/{REGION}", read_only=False),
    )


def isolation_mounts(hosts: Mapping[str, str]) -> IsolationMounts | None:
    """The isolation mounts of a container; None if it has no limits.

    ``hosts`` maps the paths of its mounts in the container to the paths on the node.
    """
    library, limit = (PurePosixPath(hosts.get(f"{ISOLATION_INSIDE}/{name}", "")) for name in (LIBRARY, LIMIT))
    found = IsolationMounts(library.parent.name, limit.parent.name, library.name == LAUNCH_LIBRARY)
    return found if is_version(found.version) and is_directory_name(found.directory) else None
