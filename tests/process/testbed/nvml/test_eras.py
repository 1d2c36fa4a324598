"""The libraries of the stub export exactly the functions of their driver eras."""

import re
import subprocess
from pathlib import Path

import pytest

from testbed.nvml import ERAS, build
from testbed.nvml.eras import FIRST_IN, functions
from tests.support.fixtures.nvml import needs_compiler

pytestmark = needs_compiler


def output(*argv: str) -> str:
    """Return the output of a command; fail if it fails."""
    return subprocess.run(  # noqa: S603 - binutils and gcc
        argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True
    ).stdout


def exported(library: Path) -> set[str]:
    return {line.split()[-1] for line in output("nm", "-D", "--defined-only", str(library)).splitlines()}


@pytest.mark.parametrize("era", ERAS)
def test_a_library_exports_exactly_the_functions_of_its_era(era: int) -> None:
    assert exported(build.library(era)) == functions(era)


def test_the_table_lists_exactly_the_implemented_functions() -> None:
    written = re.compile(r"^API .*?\b(nvml\w+)\(|^(?:NUMBER_OF|LISTS)\((nvml\w+),", re.MULTILINE)
    names = set()
    for source in build.source(580).native.glob("*.c"):
        for function, made in written.findall(source.read_text()):
            names.add(function or made)
            if made.endswith("RunningProcesses"):
                names |= {f"{made}_v2", f"{made}_v3"}
    assert names == functions(max(FIRST_IN))
