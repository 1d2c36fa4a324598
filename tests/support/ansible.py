"""The environment of runs of ansible-playbook: kept archives of modules, and a folder for temporary files."""

import atexit
import shutil
import tempfile
from functools import cache

from testbed.hosts import kept_archives


def environment() -> dict[str, str]:
    """Return the variables for the environment of a run."""
    return {**kept_archives.environment(), "TMPDIR": _temporary()}


@cache
def _temporary() -> str:
    """A folder that ends with this process: kubernetes.core leaves a file for each cluster it has seen."""
    folder = tempfile.mkdtemp(prefix="gpushare-ansible-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
