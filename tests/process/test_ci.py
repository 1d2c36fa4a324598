"""``.ci/test`` ends its background build with it, on fake programs."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.waiting import until

SCRIPT = Path(__file__).parents[2] / ".ci" / "test"
BUILD = '#!/bin/sh\ntrap "echo ended >ended; exit 130" INT\necho >started\nwhile :; do sleep 0.01; done\n'
"""Like a build, it handles an interrupt; its compilers are in other sessions."""
STEP = "from signal import *; signal(SIGINT, SIG_DFL); open('running', 'w').close(); pause()"
"""A step that an interrupt ends at any moment; a shell may miss one while it starts a program."""


def program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout of the script, a build that never ends, and a ``make`` that waits for the build."""
    (tmp_path / ".ci").mkdir()
    shutil.copy(SCRIPT, tmp_path / ".ci" / "test")
    program(tmp_path / ".venv" / "bin" / "python", BUILD)
    program(tmp_path / "bin" / "make", "#!/bin/sh\nuntil [ -e started ]; do sleep 0.01; done\n. ./step\n")
    return tmp_path


def started(checkout: Path, step: str) -> "subprocess.Popen[bytes]":
    (checkout / "step").write_text(step)
    return subprocess.Popen(  # noqa: S603 - our own script
        [checkout / ".ci" / "test"],
        env={"PATH": f"{checkout}/bin:/usr/bin:/bin"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )


async def test_a_failed_step_ends_the_build(checkout: Path) -> None:
    with started(checkout, "exit 3\n") as script:
        assert script.wait(10) == 3
    await until((checkout / "ended").exists)


async def test_an_interrupt_ends_the_build(checkout: Path) -> None:
    with started(checkout, f'exec {sys.executable} -c "{STEP}"\n') as script:
        await until((checkout / "running").exists)
        os.killpg(script.pid, signal.SIGINT)
    await until((checkout / "ended").exists)
