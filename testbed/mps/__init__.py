"""A FAKE ``nvidia-cuda-mps-control``, for machines without a GPU.

What belongs here: installing the program. What does not: the program (``control.py``).
"""

import sys
from pathlib import Path

from gpushare.mpsd.control import PROGRAM

_SCRIPT = Path(__file__).with_name("control.py")


def install(folder: Path, python: str = sys.executable) -> Path:
    """Install the fake in ``folder``, for PATH, and return its file; ``python`` runs it."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / PROGRAM
    program.write_text(f"#!{python}\n{_SCRIPT.read_text()}")
    program.chmod(0o755)
    return program
