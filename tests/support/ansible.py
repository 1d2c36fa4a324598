"""The environment of runs of ansible-playbook: a folder for temporary files."""

import atexit
import shutil
import tempfile
from functools import cache


@cache
def environment() -> dict[str, str]:
    """Return the variables for the environment of a run.

    The folder ends with this process: kubernetes.core leaves a file for each cluster it has seen.
    """
    folder = tempfile.mkdtemp(prefix="gpushare-ansible-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return {"TMPDIR": folder}
