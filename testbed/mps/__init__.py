"""A FAKE ``nvidia-cuda-mps-control``, for machines without a card.

What belongs here: putting the program where it is found. What does not: what it does (``control.py``).
"""

import sys
from pathlib import Path

from gpushare.mpsd.control import PROGRAM

_SCRIPT = Path(__file__).with_name("control.py")


def install(folder: Path, python: str = sys.executable) -> Path:
    """Put the fake into ``folder``, which is to be in PATH, and return its file; ``python`` runs it."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / PROGRAM
    program.write_text(f"#!{python}\n{_SCRIPT.read_text()}")
    program.chmod(0o755)
    return program
