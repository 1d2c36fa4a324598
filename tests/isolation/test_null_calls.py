"""Every wrapped function answers NULL as the driver alone does: with the same code, or by the same crash."""

import json
import re
from pathlib import Path

import pytest

from testbed.nvml import GpuProcess, NvmlStub
from testbed.nvml import card as nvml_card
from tests.isolation.conftest import Make
from tests.isolation.test_ways_in import compiled
from tests.support.fixtures.isolation import NATIVE, UUID, Container, needs_compiler
from tests.support.fixtures.null_calls import ABSENT, ALL, CALLS, NONE, Answers, command, differences

pytestmark = needs_compiler

NEWEST = 615
WRAPPER = re.compile(r"API int (\w+)\(([^)]*)\)")
MACRO = re.compile(r"#define (\w+)\(name[^)]*\)(?:.*\\\n)*?.*API int name\(([^)]*)\)")
USE = re.compile(r"^(\w+)\((\w+)[,)]", re.MULTILINE)


def wrapped() -> set[str]:
    return set(re.findall(r"W\((\w+), \"", (NATIVE / "names.h").read_text()))


def test_the_table_has_every_wrapped_function() -> None:
    assert CALLS.keys() == wrapped()


def parameters() -> dict[str, list[str]]:
    """The parameters of each wrapper; several wrappers are made by one macro."""
    code = "".join(path.read_text() for path in NATIVE.glob("*.c"))
    macros = dict(MACRO.findall(code))
    made = {name: macros[macro] for macro, name in USE.findall(code) if macro in macros}
    return {name: text.split(",") for name, text in {**dict(WRAPPER.findall(code)), **made}.items()}


def test_the_table_has_every_pointer_of_a_function() -> None:
    own = parameters()
    for name, arguments in CALLS.items():
        pointers = ["*" in parameter for parameter in own[name]]
        named = [isinstance(argument, str) for argument in arguments]
        assert [each and also for each, also in zip(pointers, named, strict=True)] == pointers, name


def answers(container: Container, folders: str, preload: str, **env: str) -> Answers:
    env |= {"LD_PRELOAD": preload, "LD_LIBRARY_PATH": folders}
    done = container.run(command(), **env)
    assert done.returncode == 0, done.stderr
    found: Answers = json.loads(done.stdout)
    return found


@pytest.fixture(params=["memory", "launches"])
def limited(make: Make, request: pytest.FixtureRequest) -> Container:
    container = make(era=NEWEST)
    return container if request.param == "memory" else container.with_launches()


def test_every_function_answers_null_as_the_driver_does(limited: Container) -> None:
    busy = (GpuProcess(pid=1, used_mib=3193),)
    nvml = NvmlStub(
        limited.folder / "nvml-null", era=NEWEST, cards=[nvml_card("V100", uuid=UUID, processes=busy)]
    )
    folders = f"{nvml.env['LD_LIBRARY_PATH']}:{limited.stub.env['LD_LIBRARY_PATH']}"
    alone = answers(limited, folders, "", STUB_NVML=nvml.env["STUB_NVML"])
    assert {name: each[NONE] for name, each in alone.items() if each[NONE] != 0} == {}
    ours = answers(limited, folders, limited.preload, STUB_NVML=nvml.env["STUB_NVML"])
    assert differences(alone, ours) == {}
    assert alone["cuMemGetInfo_v2"] == {NONE: 0, "0": 0, "1": 0, ALL: 0}


def test_no_function_uses_a_null_that_the_driver_accepts(limited: Container, tmp_path: Path) -> None:
    for name in "libcuda.so.1", "libnvidia-ml.so.1":
        flags = ("-shared", "-fPIC", f"-I{NATIVE}", f"-Wl,-soname,{name}")
        compiled(tmp_path / name, "accepts_null.c", *flags)
    alone = answers(limited, str(tmp_path), "")
    assert {result for each in alone.values() for result in each.values()} == {0, ABSENT}
    assert differences(alone, answers(limited, str(tmp_path), limited.preload)) == {}
