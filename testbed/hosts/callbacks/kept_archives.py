"""Callback plugin: keeps archives of modules between runs, and bytecode of modules that run on this machine.

Each ``ansible-playbook`` puts every module that it uses, with its imports, in an archive, which it removes
when it ends. What belongs here: a cache of them. It runs in the environments of Ansible, without the packages
of this checkout.
"""

import hashlib
import os
import shutil
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from ansible.constants import COLLECTIONS_PATHS, DEFAULT_LOCAL_TMP, DEFAULT_MODULE_PATH
from ansible.plugins.callback import CallbackBase

FOLDER: Final = "GPUSHARE_KEPT_ARCHIVES"
"""The environment variable with the folder of the cache."""
_KEEP: Final = 8
"""How many sets of archives remain: those used last."""
_BYTECODE: Final = Path(__file__).parents[1] / "kept_bytecode.py"


class CallbackModule(CallbackBase):  # type: ignore[misc]
    """The plugin."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "kept_archives"

    def __init__(self) -> None:
        super().__init__()
        self._sources = sources()
        self._root = Path(os.environ[FOLDER])
        self._kept = self._root / key(self._sources)
        self._used = Path(DEFAULT_LOCAL_TMP) / "ansiballz_cache"

    def v2_playbook_on_start(self, playbook: Any) -> None:  # noqa: ARG002 - Ansible gives it
        """Give this run the archives of earlier ones."""
        # Without the cache, or with a part of it, Ansible makes what it lacks.
        with suppress(OSError):
            take(self._kept, self._used)
            keep_bytecode(self._kept)
            prune(self._root)

    def v2_playbook_on_stats(self, stats: Any) -> None:  # noqa: ARG002 - Ansible gives it
        """Keep the archives that this run made, unless a source changed meanwhile."""
        if sources() == self._sources:
            with suppress(OSError):
                give(self._used, self._kept)


def sources() -> dict[str, tuple[int, int]]:
    """Return path → size and time of change, of all plugins and modules outside of site-packages."""
    found = {}
    for folders, pattern in (
        (COLLECTIONS_PATHS, "ansible_collections/*/*/plugins/**/*.py"),
        (DEFAULT_MODULE_PATH, "*.py"),
    ):
        for path in (each for folder in folders for each in sorted(Path(folder).glob(pattern))):
            status = path.stat()
            found[str(path)] = status.st_size, status.st_mtime_ns
    return found


def key(files: dict[str, tuple[int, int]]) -> str:
    """Return a digest of all that is in archives, because Ansible only compares names of modules."""
    digest = hashlib.sha256()
    for part in _parts(files):
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()[:32]


def _parts(files: dict[str, tuple[int, int]]) -> Iterator[bytes]:
    yield sys.version.encode()
    yield _BYTECODE.read_bytes()
    # Their names have the versions of ansible-core and of the collections in site-packages.
    site = Path(sysconfig.get_path("purelib"))
    yield "\n".join(sorted(each.name for each in site.glob("*.dist-info"))).encode()
    for path in files:
        _, collections, inside = path.rpartition("/ansible_collections/")
        yield (inside if collections else Path(path).name).encode()
        yield Path(path).read_bytes()


def take(kept: Path, used: Path) -> None:
    """Link or copy the kept archives to the folder in which Ansible looks for them."""
    (kept / "archives").mkdir(parents=True, exist_ok=True)
    os.utime(kept)
    used.mkdir(exist_ok=True)
    for archive in (kept / "archives").iterdir():
        if not archive.name.startswith("."):
            _link(archive, used / archive.name)


def give(used: Path, kept: Path) -> None:
    """Add new archives to those kept; each appears complete, also if several runs add it."""
    for archive in used.iterdir():
        target = kept / "archives" / archive.name
        if archive.suffix != ".lock" and not archive.name.endswith("-part") and not target.exists():
            draft = target.with_name(f".{archive.name}.{os.getpid()}")
            _link(archive, draft)
            draft.replace(target)


def _link(source: Path, target: Path) -> None:
    # Ansible replaces archives and never writes into one, so that a link is as safe as a copy.
    try:
        target.hardlink_to(source)
    except OSError:
        shutil.copyfile(source, target)


def keep_bytecode(kept: Path) -> None:
    """Use ``kept_bytecode`` in modules that run on this machine; hosts of a lab have it."""
    path = kept / "python/sitecustomize.py"
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        draft = path.with_name(f".{os.getpid()}")
        draft.write_text(f"{_BYTECODE.read_text()}\n\ninstall()\n")
        draft.replace(path)
    os.environ["KEPT_BYTECODE"] = str(kept / "bytecode")
    others = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(path.parent), others]))


def prune(root: Path) -> None:
    """Remove the sets that were used before the last ``_KEEP``."""
    sets = sorted(root.iterdir(), key=lambda each: each.stat().st_mtime, reverse=True)
    for each in sets[_KEEP:]:
        shutil.rmtree(each, ignore_errors=True)
