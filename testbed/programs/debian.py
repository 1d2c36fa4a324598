"""Programs of Debian's packages that ``.ci/packages`` only unpacks: installed, they would start services.

What belongs here: finding them. What does not: programs that are built (``testbed.programs.binaries``).
"""

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from testbed.errors import TestbedError
from testbed.programs.binaries import runnable, variable_of
from testbed.system.folders import cache_root

_PACKAGE_OF: Final = {"busybox": "busybox-static", "promtool": "prometheus"}
"""Where it is not called as the program."""
_DYNAMIC_MARK: Final = b"/ld-linux"


def program(name: str, env: Mapping[str, str] = os.environ) -> Path:
    """One of ``TESTBED_<NAME>``, of PATH, or of what ``.ci/packages`` unpacked.

    Raises ConfigError where the variable names no program, TestbedError where there is none at all.
    """
    if found := next(_found(name, env), None):
        return found
    raise TestbedError(
        f"there is no {name}: run .ci/packages test on Debian, or name one in {variable_of(name)}"
    )


def static_busybox(env: Mapping[str, str] = os.environ) -> Path | None:
    """A busybox that runs where nothing else is; that of PATH may need libraries. Raises ConfigError."""
    return next((path for path in _found("busybox", env) if _DYNAMIC_MARK not in path.read_bytes()), None)


def _found(name: str, env: Mapping[str, str]) -> Iterator[Path]:
    if given := env.get(variable_of(name)):
        yield runnable(Path(given), variable_of(name))
        return
    unpacked = cache_root(env) / _PACKAGE_OF.get(name, name)
    places = (env.get("PATH"), str(unpacked / "usr" / "bin"), str(unpacked / "bin"))
    yield from (Path(path) for place in places if (path := shutil.which(name, path=place)))
