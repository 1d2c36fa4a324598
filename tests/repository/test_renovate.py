"""Renovate moves every pin of the checkout: ``.github/renovate.json``."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
CONFIG = json.loads((ROOT / ".github/renovate.json").read_text())
MANAGERS = CONFIG["customManagers"]
TRACKED = subprocess.run(
    ["git", "ls-files"],  # noqa: S607 - the developer's git
    cwd=ROOT,
    check=True,
    capture_output=True,
    text=True,
).stdout.splitlines()

# The files that the managers of Renovate itself read, by their default patterns (version 44).
BUILT_IN = re.compile(
    r"(^|/)pyproject\.toml$|(^|/)[\w-]*requirements[\w.-]*\.(txt|pip)$|(^|/)go\.mod$|(^|/)package\.json$"
    r"|(^|/)(?i:docker|container)file[^/]*$|(^|/)(galaxy|requirements)(\.ansible)?\.ya?ml$"
    r"|^\.github/workflows/[^/]+\.ya?ml$"
)
# Their preset `config:recommended` reads nothing in these folders.
IGNORED = re.compile(r"(^|/)(node_modules|vendor|examples|__tests__|tests?|__fixtures__)/")
PINNED_FILES = ("Containerfile", "go.mod", "galaxy.yml", "package.json", "pyproject.toml", "requirements.yml")

# What looks like a pin in files that no built-in manager reads as such.
PIN = re.compile(
    r"""(?<=VERSION=)\d[\d.]+|(?<===)\d[\d.]+|(?<=pulumi-version:\ )\S+
    |(?<=["(])\d+\.\d+\.\d+(?=")|(?<=[Vv]ersion=v)\d[\d.]+|(?<=_version:\ )\d[\d.]+""",
    re.VERBOSE,
)
WITH_PINS = re.compile(r"\.ci/.+|\.github/workflows/.+|testbed/programs/.+\.py|ansible/roles/\w+/defaults/.+")
UNMOVED = {
    "4.34.2": "the version of the provider that uv.lock has",
}


def patterns(manager: dict[str, Any]) -> list[re.Pattern[str]]:
    """Its patterns in Python's notation of named groups."""
    return [re.compile(text.replace("(?<", "(?P<")) for text in manager["matchStrings"]]


def files(manager: dict[str, Any]) -> list[str]:
    found = [re.compile(each.strip("/")) for each in manager["managerFilePatterns"]]
    return [name for name in TRACKED if any(each.search(name) for each in found)]


def versions(manager: dict[str, Any]) -> Iterator[tuple[str, re.Match[str]]]:
    """The files and places of the versions that a manager finds."""
    for name in files(manager):
        text = (ROOT / name).read_text()
        for pattern in patterns(manager):
            yield from ((name, match) for match in pattern.finditer(text))


def label(manager: dict[str, Any]) -> str:
    return str(manager["depNameTemplate"])


@pytest.mark.parametrize("manager", MANAGERS, ids=label)
def test_each_pattern_of_a_manager_finds_a_version(manager: dict[str, Any]) -> None:
    used = {match.re.pattern for _, match in versions(manager)}
    assert used == {each.pattern for each in patterns(manager)}


@pytest.mark.parametrize(
    "manager", [each for each in MANAGERS if each["datasourceTemplate"] == "go"], ids=label
)
def test_a_pin_of_a_go_module_is_that_of_the_testbed(manager: dict[str, Any]) -> None:
    """So Renovate moves both in one request."""
    modules = [(ROOT / name).read_text() for name in TRACKED if re.match(r"testbed/tools/.+/go\.mod$", name)]
    for name, match in versions(manager):
        required = f"{label(manager)} v{match['currentValue']}"
        assert any(re.search(rf"^\s*(require )?{required}\b", each, re.MULTILINE) for each in modules), name


def test_each_pin_has_a_manager_or_a_reason() -> None:
    moved = {(name, match.span("currentValue")) for manager in MANAGERS for name, match in versions(manager)}
    left = {
        match[0]
        for name in TRACKED
        if WITH_PINS.fullmatch(name)
        for match in PIN.finditer((ROOT / name).read_text())
        if (name, match.span()) not in moved
    }
    assert left == set(UNMOVED)


def test_each_file_of_dependencies_is_read() -> None:
    names = [name for name in TRACKED if Path(name).name in PINNED_FILES]
    assert len(names) > len(PINNED_FILES)
    assert not [name for name in names if not BUILT_IN.search(name) or IGNORED.search(name)]


def test_the_files_and_folders_of_the_rules_exist() -> None:
    named = {name for rule in CONFIG["packageRules"] for name in rule.get("matchFileNames", [])}
    assert not [name for name in named if not (ROOT / name.removesuffix("/**")).exists()]
