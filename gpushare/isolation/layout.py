"""Where isolation's files are on a node. Paths only: nothing here touches a disk.

<libraries>/current                         a link to the version that new containers get
<libraries>/<version>/libgpushare.so        the library that holds memory
<libraries>/<version>/libgpushare-launch.so the one for launches too; inside it has the name of the other
<libraries>/<version>/ld.so.preload         one line: where containers have the library
<state>/<place>/limit                       what the container may use, root's alone to write
<state>/<place>/region                      what its processes use, everybody's to write
<state>/<pod UID>_<container>               a link to the place of that container

A place is named before it is certain whose it is: pods that are alike may be taken for each other.
"""

import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

from gpushare.contract import ISOLATION_INSIDE, ISOLATION_LIBRARIES, ISOLATION_STATE, PRELOAD

CURRENT: Final = "current"
LIBRARY: Final = "libgpushare.so"
LAUNCH_LIBRARY: Final = "libgpushare-launch.so"
PRELOAD_FILE: Final = "ld.so.preload"
LIMIT: Final = "limit"
REGION: Final = "region"
PRELOAD_TEXT: Final = f"{ISOLATION_INSIDE}/{LIBRARY}\n"
VERSION_DIGITS: Final = 16
"""Of a checksum over the libraries."""
_VERSION: Final = re.compile(rf"[0-9a-f]{{{VERSION_DIGITS}}}")
_PLACE: Final = re.compile(r"[0-9a-f]{16}")


class IsolationDirs(NamedTuple):
    """Where libraries and state are, on the node and in the agent alike."""

    libraries: Path = Path(ISOLATION_LIBRARIES)
    state: Path = Path(ISOLATION_STATE)


class HostMount(NamedTuple):
    """A file of the node and its place in a container."""

    host: str
    inside: str
    read_only: bool


class Bound(NamedTuple):
    """What a container was given; ``launches`` is whether its launches are held too."""

    version: str
    place: str
    launches: bool = False


class Owner(NamedTuple):
    """Whose a folder of the state is."""

    uid: str
    container: str


def is_version(name: str) -> bool:
    """Whether a name can be that of a version's folder."""
    return bool(_VERSION.fullmatch(name))


def place_named(number: int) -> str:
    """The name of a place, by a number that no other place has."""
    return f"{number:016x}"


def is_place(name: str) -> bool:
    """Whether a name can be that of a place."""
    return bool(_PLACE.fullmatch(name))


def folder_of(state: Path, owner: Owner) -> Path:
    """The folder of a container's limit and region: a link to its place."""
    return state / f"{owner.uid}_{owner.container}"


def owner_of(name: str) -> Owner | None:
    """Whose folder it is by its name; None for a name that we give to none."""
    uid, mark, container = name.partition("_")
    return Owner(uid, container) if uid and mark and container else None


def binds(folders: IsolationDirs, given: Bound) -> tuple[HostMount, ...]:
    """What a container gets: limit and region of its place, and the library of that version."""
    library, own = folders.libraries / given.version, folders.state / given.place
    build = LAUNCH_LIBRARY if given.launches else LIBRARY
    return (
        HostMount(str(library / build), f"{ISOLATION_INSIDE}/{LIBRARY}", read_only=True),
        HostMount(str(library / PRELOAD_FILE), PRELOAD, read_only=True),
        HostMount(str(own / LIMIT), f"{ISOLATION_INSIDE}/{LIMIT}", read_only=True),
        HostMount(str(own / REGION), f"{ISOLATION_INSIDE}/{REGION}", read_only=False),
    )


def bound(hosts: Mapping[str, str]) -> Bound | None:
    """What a container was given; None where it was given nothing that holds it.

    ``hosts`` are the paths of its mounts on the node, by their places in the container.
    """
    library, limit = (PurePosixPath(hosts.get(f"{ISOLATION_INSIDE}/{name}", "")) for name in (LIBRARY, LIMIT))
    found = Bound(library.parent.name, limit.parent.name, library.name == LAUNCH_LIBRARY)
    return found if is_version(found.version) and is_place(found.place) else None
