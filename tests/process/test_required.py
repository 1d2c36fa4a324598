"""``GPUSHARE_REQUIRE_ALL`` makes a skip a failure; ``GPUSHARE_RESULTS`` counts what ran."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tools.suite import results

ROOT = Path(__file__).parents[2]
PLANTED = """
import pytest

@pytest.mark.needs("arm64-emulator")
def test_a_need(): ...

@pytest.mark.skipif(True, reason="by its marker")
def test_a_marker(): ...

def test_a_call():
    pytest.skip("while it runs")

@pytest.mark.xfail(raises=ValueError)
def test_an_expected_failure():
    raise ValueError

def test_a_pass(): ...
"""


def run(
    folder: Path, text: str, *flags: str, python: Sequence[str] = (sys.executable, "-m"), **env: str
) -> "subprocess.CompletedProcess[str]":
    """Run a file of tests under the rules of ``tests/conftest.py``, on a machine without any program."""
    (folder / "test_planted.py").write_text(text)
    (folder / "pytest.ini").write_text(
        "[pytest]\nmarkers = needs\naddopts = -ra -p tests.conftest -p no:cacheprovider"
    )
    return subprocess.run(  # noqa: S603 - our own tests
        [*python, "pytest", *flags, str(folder)],
        env={"PATH": "/nowhere", "PYTHONPATH": str(ROOT), "HOME": os.environ["HOME"], **env},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_tests_that_this_machine_cannot_run_are_skipped_with_reasons(tmp_path: Path) -> None:
    done = run(tmp_path, PLANTED)
    assert done.returncode == 0, done.stdout
    assert "1 passed, 3 skipped, 1 xfailed" in done.stdout
    assert "there is no qemu-aarch64 (apt-get install qemu-user)" in done.stdout


@pytest.mark.parametrize("workers", ["0", "2"])
def test_each_planted_skip_is_a_failure_where_all_tests_are_required(tmp_path: Path, workers: str) -> None:
    done = run(tmp_path, PLANTED, f"-n{workers}", GPUSHARE_REQUIRE_ALL="1")
    assert done.returncode == 1
    assert "1 failed, 1 passed, 1 xfailed, 2 errors" in done.stdout
    for reason in ("there is no qemu-aarch64 (apt-get install qemu-user)", "by its marker", "while it runs"):
        assert f"Skipped: {reason}\nA skip, but all tests are required" in done.stdout


def test_a_skipped_module_is_a_failure_too(tmp_path: Path) -> None:
    text = "import pytest\npytest.importorskip('no_such_module')\n"
    assert run(tmp_path, text).returncode == 5  # no tests
    done = run(tmp_path, text, GPUSHARE_REQUIRE_ALL="1")
    assert done.returncode == 2
    assert "could not import 'no_such_module'" in done.stdout


@pytest.mark.parametrize("workers", ["0", "2"])
def test_results_of_all_workers_are_counted_once(tmp_path: Path, workers: str) -> None:
    folder = tmp_path / "results"
    run(tmp_path, PLANTED, f"-n{workers}", GPUSHARE_RESULTS=str(folder))
    outcomes = sorted(each.outcome for each in results.read(folder) if each.outcome)
    assert outcomes == ["passed", "skipped", "skipped", "skipped"]
