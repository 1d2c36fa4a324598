"""Go's caches of modules and packages: in the cache of the testbed, removed after the builds of a module.

The programs of one Go module share most packages; other modules need other versions of them. What does not
belong here: the builds (``testbed.programs.build``).
"""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def caches(root: Path, module: str, *, keep: bool) -> Iterator[Mapping[str, str]]:
    """Yield the environment variables of Go for a build of ``module``, and remove its caches afterwards.

    ``keep`` leaves them for the next build of the module, unless this one fails. Removes those of other
    modules, which a killed build has left; the caller holds the lock of all builds.
    """
    folder = root / "go-caches" / module
    _remove_others(folder)
    kept = False
    try:
        yield {
            "GOCACHE": str(folder / "packages"),
            "GOMODCACHE": str(folder / "modules"),
        }
        kept = keep
    finally:
        if not kept:
            _remove(folder)


def _remove_others(folder: Path) -> None:
    for other in folder.parent.glob("*"):
        if other != folder:
            _remove(other)


def _remove(folder: Path) -> None:
    for each in folder.rglob("*/"):
        # Go makes the folders of downloaded modules read-only.
        each.chmod(0o755)
    shutil.rmtree(folder, ignore_errors=True)
