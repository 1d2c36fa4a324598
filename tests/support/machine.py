"""The command, the sources and the machine of a measurement, for pages of results."""

import os
import platform
import shlex
import sys
from pathlib import Path

from tools import provenance


def machine() -> str:
    """What a page of results states: the command, the commit, the date, and the machine with its load."""
    module = sys.modules["__main__"].__spec__
    name = module.name.removesuffix(".__main__") if module else Path(sys.argv[0]).name
    command = shlex.join(["python", "-m", name, *sys.argv[1:]])
    sources = f"`{command}`, commit {provenance.commit()}, {provenance.today()}"
    versions = f"Python {platform.python_version()}, Linux {platform.release()}"
    return f"{sources}: {provenance.processor()}, {versions}, load {os.getloadavg()[0]:.1f}"
