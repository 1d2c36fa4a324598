"""Where isolation's files are on a node. Paths only: nothing here touches a disk.

<libraries>/current                         a link to the version that new containers get
<libraries>/<version>/libgpushare.so        the library that holds memory
<libraries>/<version>/ld.so.preload         one line: where containers have the library
<state>/<pod UID>_<container>/limit         what the container may use, root's alone to write
<state>/<pod UID>_<container>/region        what its processes use, everybody's to write
"""

import re
from pathlib import Path
from typing import Final, NamedTuple

from gpushare.contract import ISOLATION_INSIDE, PRELOAD

CURRENT: Final = "current"
LIBRARY: Final = "libgpushare.so"
PRELOAD_FILE: Final = "ld.so.preload"
LIMIT: Final = "limit"
REGION: Final = "region"
PRELOAD_TEXT: Final = f"{ISOLATION_INSIDE}/{LIBRARY}\n"
_VERSION: Final = re.compile(r"[0-9a-f]{16}")
"""The first digits of the library's SHA-256."""


class Bind(NamedTuple):
    """A file of the node and its place in a container."""

    host: str
    inside: str
    read_only: bool


class Owner(NamedTuple):
    """Whose a folder of the state is."""

    uid: str
    container: str


def is_version(name: str) -> bool:
    """Whether a name can be that of a version's folder."""
    return bool(_VERSION.fullmatch(name))


def folder_of(state: Path, owner: Owner) -> Path:
    """The folder of a container's limit and region."""
    return state / f"{owner.uid}_{owner.container}"


def owner_of(name: str) -> Owner | None:
    """Whose folder it is by its name; None for a name that we give to none."""
    uid, mark, container = name.partition("_")
    return Owner(uid, container) if uid and mark and container else None


def binds(libraries: Path, version: str, folder: Path) -> tuple[Bind, ...]:
    """What a container gets: its limit and region from ``folder``, and the library of that version."""
    library = libraries / version
    return (
        Bind(str(library / LIBRARY), f"{ISOLATION_INSIDE}/{LIBRARY}", read_only=True),
        Bind(str(library / PRELOAD_FILE), PRELOAD, read_only=True),
        Bind(str(folder / LIMIT), f"{ISOLATION_INSIDE}/{LIMIT}", read_only=True),
        Bind(str(folder / REGION), f"{ISOLATION_INSIDE}/{REGION}", read_only=False),
    )
