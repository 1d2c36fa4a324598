"""The stub's libraries have the functions of their drivers' eras, and no others."""

import re
import subprocess
from pathlib import Path

import pytest

from gpushare.errors import ConfigError
from testbed.nvml import ERAS, build
from testbed.nvml.eras import FIRST_IN, functions
from tests.fixtures.nvml import needs_compiler

pytestmark = needs_compiler


def output(*argv: str) -> str:
    """All that a command says; fails where it does."""
    return subprocess.run(  # noqa: S603 - binutils and gcc
        argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True
    ).stdout


def exported(library: Path) -> set[str]:
    return {line.split()[-1] for line in output("nm", "-D", "--defined-only", str(library)).splitlines()}


@pytest.mark.parametrize("era", ERAS)
def test_a_library_exports_exactly_what_its_era_has(era: int) -> None:
    assert exported(build.library(era)) == functions(era)


def test_the_table_lists_every_function_that_is_written_and_no_other() -> None:
    written = re.compile(r"^API .*?\b(nvml\w+)\(|^(?:NUMBER_OF|LISTS)\((nvml\w+),", re.MULTILINE)
    names = set()
    for source in build.source(580).native.glob("*.c"):
        for function, made in written.findall(source.read_text()):
            names.add(function or made)
            if made.endswith("RunningProcesses"):
                names |= {f"{made}_v2", f"{made}_v3"}
    assert names == functions(max(FIRST_IN))


@pytest.mark.parametrize(
    ("name", "eras"),
    [
        ("nvmlDeviceGetMemoryInfo", {418, 440, 470, 535, 580}),
        ("nvmlDeviceGetMemoryInfo_v2", {535, 580}),
        ("nvmlEventSetWait_v2", {470, 535, 580}),
        ("nvmlDeviceGetMigMode", {470, 535, 580}),
        ("nvmlDeviceGetComputeRunningProcesses_v2", {470, 535, 580}),
        ("nvmlDeviceGetComputeRunningProcesses_v3", {535, 580}),
        ("nvmlDeviceGetNumaNodeId", {580}),
    ],
)
def test_which_eras_have_a_function(name: str, eras: set[int]) -> None:
    assert {era for era in ERAS if name in functions(era)} == eras


def test_the_library_is_found_by_the_name_that_programs_ask_for() -> None:
    assert re.search(r"SONAME\s+libnvidia-ml\.so\.1\n", output("objdump", "-p", str(build.library(580))))


def test_an_unknown_era_names_those_that_are_known() -> None:
    with pytest.raises(ConfigError, match=r"era 390 is unknown: choose one of 418, 440, 470, 535, 580"):
        build.library(390)
