"""Programs of Debian's packages that ``.ci/bootstrap`` only unpacks: installed, they would start services.

What belongs here: finding them. What does not: programs that are built (``testbed.binaries``).
"""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from testbed.binaries import runnable, variable_of
from testbed.errors import TestbedError
from testbed.folders import cache_root

_PACKAGE_OF: Final = {"promtool": "prometheus"}
"""Where it is not called as the program."""


def program(name: str, env: Mapping[str, str] = os.environ) -> Path:
    """One of ``TESTBED_<NAME>``, of PATH, or of what ``.ci/bootstrap`` unpacked.

    Raises ConfigError where the variable names no program, TestbedError where there is none at all.
    """
    variable = variable_of(name)
    if given := env.get(variable):
        return runnable(Path(given), variable)
    unpacked = cache_root(env) / _PACKAGE_OF.get(name, name) / "usr" / "bin" / name
    if found := shutil.which(name, path=env.get("PATH")) or shutil.which(unpacked):
        return Path(found)
    raise TestbedError(f"there is no {name}: run .ci/bootstrap on Debian, or name one in {variable}")
