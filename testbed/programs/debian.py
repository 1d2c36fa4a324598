"""Programs of Debian packages that ``.ci/packages`` unpacks: installed, they would start services.

What does not belong here: programs that are built (``testbed.programs.binaries``).
"""

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from devkit.errors import DevkitError
from devkit.folders import cache_root
from testbed.programs.binaries import runnable, variable_of

_PACKAGE_OF: Final = {"busybox": "busybox-static", "linux.uml": "user-mode-linux", "promtool": "prometheus"}
"""Packages with another name than the program."""
_DYNAMIC_MARK: Final = b"/ld-linux"


def program(name: str, env: Mapping[str, str] = os.environ) -> Path:
    """Return the program of ``TESTBED_<NAME>``, on PATH, or unpacked by ``.ci/packages``.

    Raises ConfigError if the variable names no program, DevkitError if there is none.
    """
    if found := next(_found(name, env), None):
        return found
    raise DevkitError(f"{name} is missing: run .ci/packages all on Debian, or set {variable_of(name)}")


def static_busybox(env: Mapping[str, str] = os.environ) -> Path | None:
    """Return a statically linked busybox; that on PATH may need libraries. Raises ConfigError."""
    return next((path for path in _found("busybox", env) if _DYNAMIC_MARK not in path.read_bytes()), None)


def _found(name: str, env: Mapping[str, str]) -> Iterator[Path]:
    if own := env.get(variable_of(name)):
        yield runnable(Path(own), variable_of(name))
        return
    unpacked = cache_root(env) / _PACKAGE_OF.get(name, name)
    folders = (env.get("PATH"), str(unpacked / "usr" / "bin"), str(unpacked / "bin"))
    yield from (Path(path) for folder in folders if (path := shutil.which(name, path=folder)))
