"""Where results come from: the commit of the sources, the date, and the machine."""

import datetime as dt
import os
import platform
import subprocess
from pathlib import Path


def commit() -> str:
    """Return the commit of the sources, with ``-dirty`` after a change, or "unknown" outside of git."""
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--exclude=*"],  # noqa: S607 - the user's git
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or "unknown"


def today() -> str:
    """Return the date in UTC, as 2026-11-25."""
    return dt.datetime.now(dt.UTC).date().isoformat()


def processor() -> str:
    """Return the number of cores and their model."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return f"{os.cpu_count()} x {next(model, platform.machine())}"


def machine() -> str:
    """Return processor and kernel."""
    return f"{processor()}, Linux {platform.release().partition('-')[0]}"
