"""The stub NVML inside a test's own process.

What belongs here: making the real ``pynvml`` of this process use a stub's library. What does not: the
stub (``testbed.nvml``).
"""

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pynvml
import pytest

from testbed.nvml import NvmlStub

ROOT = Path(__file__).parents[2]

needs_compiler = pytest.mark.needs("compiler")


def load(stub: NvmlStub, monkeypatch: pytest.MonkeyPatch) -> NvmlStub:
    """Put the stub's library where pynvml keeps the one it has loaded, until the end of the test."""
    monkeypatch.setenv("STUB_NVML", stub.env["STUB_NVML"])
    monkeypatch.setattr(pynvml, "nvmlLib", ctypes.CDLL(str(stub.library)))
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    return stub


def in_child(code: str, env: dict[str, str]) -> Any:
    """What the Python program ``code`` prints as JSON, in a process of PATH and ``env`` alone."""
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", code],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **env},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
