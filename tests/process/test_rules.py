"""``tests/conftest.py`` makes results independent of how tests are started and how busy the machine is."""

import shutil
import sys
from pathlib import Path

from tests.process.test_required import run

LIMITS = """
import pytest

def limit(request):
    return request.node.get_closest_marker("timeout").args

def test_of_the_file(request):
    assert limit(request) == (1200.0,)

@pytest.mark.timeout(7)
def test_of_its_own(request):
    assert limit(request) == (28.0,)
"""
INTERRUPTED = """
import signal, subprocess, sys

PROGRAM = "print(flush=True); import signal; signal.pause()"

def test_a_program_is_interrupted():
    for number in (signal.SIGINT, signal.SIGQUIT):
        argv = [sys.executable, "-c", PROGRAM]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:
            program.stdout.readline()
            program.send_signal(number)
            try:
                assert program.wait(20) == -number
            finally:
                program.kill()
"""


def test_time_limits_of_tests_grow_with_all_other_ones(tmp_path: Path) -> None:
    done = run(tmp_path, LIMITS, "--override-ini=timeout=300", GPUSHARE_TIMEOUT_FACTOR="4")
    assert "2 passed" in done.stdout, done.stdout


def test_interrupts_reach_programs_also_in_the_background_of_a_script(tmp_path: Path) -> None:
    background = (str(shutil.which("env")), "--ignore-signal=INT,QUIT", sys.executable, "-m")
    for workers in ("-n0", "-n1"):
        done = run(tmp_path, INTERRUPTED, workers, python=background)
        assert "1 passed" in done.stdout, done.stdout
