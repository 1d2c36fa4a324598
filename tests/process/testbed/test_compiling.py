"""Stubs of libraries are compiled once, without warnings."""

from dataclasses import replace
from pathlib import Path

import pytest

from devkit.errors import DevkitError
from testbed.nvml.build import source
from testbed.programs.compiling import compile_command, compiled
from tests.support.fixtures.nvml import needs_compiler

pytestmark = needs_compiler


def test_the_stub_nvml_compiles_without_warnings(tmp_path: Path) -> None:
    strict = (*source(580).flags, "-Wpedantic", "-Wshadow")
    assert "-Werror" in compile_command(source(580), tmp_path)
    assert compiled(replace(source(580), flags=strict), tmp_path).exists()


def test_a_library_is_compiled_once(tmp_path: Path) -> None:
    first = compiled(source(470), tmp_path)
    made = first.stat().st_mtime_ns
    assert compiled(source(470), tmp_path) == first
    assert first.stat().st_mtime_ns == made
    assert [path.name for path in (tmp_path / "stubs").iterdir()] == [first.parent.name]


def test_a_missing_compiler_is_reported_with_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DevkitError, match="apt-get install gcc"):
        compiled(source(535), tmp_path)
