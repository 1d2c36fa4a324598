"""Keeps the bytecode of modules that Python imports from zip archives; it is installed when Python starts.

Ansible sends each module as an archive of sources, which ``zipimport`` compiles at every call: half of the
CPU time of a short module. What belongs here: that cache. It imports little, because each start waits for it.
"""

# ruff: noqa: PTH103, PTH105, PTH123, SLF001 - pathlib takes 8 ms to import; zipimport has no public hook
import _imp
import marshal
import os
import sys
import zipimport
from contextlib import suppress
from types import CodeType

FOLDER = os.environ.get("KEPT_BYTECODE", "/run/kept-bytecode")
_compile = zipimport._compile_source  # type: ignore[attr-defined]


def install() -> None:
    """Use the cache in this process."""
    zipimport._compile_source = compiled  # type: ignore[attr-defined]


def compiled(path: str, source: bytes) -> CodeType:
    """Return the code of a module; ``path`` is that of its archive, followed by its own in there."""
    inside = path.partition(".zip")[2].encode()
    kept = f"{FOLDER}/{_imp.source_hash(0, inside + source).hex()}.{sys.implementation.cache_tag}"
    try:
        return _read(kept)
    except OSError:
        code: CodeType = _compile(path, source)
    # Only root may write there.
    with suppress(OSError):
        _write(kept, code)
    return code


def _read(kept: str) -> CodeType:
    with open(kept, "rb") as file:
        code: CodeType = marshal.load(file)  # noqa: S302 - written below
    return code


def _write(kept: str, code: CodeType) -> None:
    os.makedirs(FOLDER, exist_ok=True)
    draft = f"{kept}.{os.getpid()}"
    with open(draft, "wb") as file:
        marshal.dump(code, file)
    os.replace(draft, kept)
