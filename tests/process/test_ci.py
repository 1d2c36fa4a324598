"""``.ci/test`` ends its background jobs with it, and tests roles beside its steps, on fake programs."""

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
MAKE = """\
#!/bin/sh
case "$*" in
    *molecule*) touch molecule; exit ;;
esac
until [ -e started ]; do sleep 0.01; done
. ./step
"""


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
    program(tmp_path / "bin" / "make", MAKE)
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


async def test_roles_are_tested_as_soon_as_the_build_is_over(checkout: Path) -> None:
    built = "#!/bin/sh\ntouch started; until [ -e build ]; do sleep 0.01; done\n"
    program(checkout / ".venv" / "bin" / "python", built)
    step = "[ ! -e molecule ] || exit 4\ntouch build\nuntil [ -e molecule ]; do sleep 0.01; done\nexit 3\n"
    with started(checkout, step) as script:
        assert script.wait(20) == 3
