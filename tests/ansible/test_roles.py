import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tools import role_docs

ROLES = role_docs.roles()
SCENARIOS = role_docs.ROLES.parent / "extensions/molecule"
each_role = pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)


def defaults(role: Path) -> dict[str, Any]:
    file = role / "defaults/main.yml"
    return (yaml.safe_load(file.read_text()) or {}) if file.exists() else {}


def test_there_are_roles() -> None:
    assert ROLES


@each_role
def test_defaults_are_those_of_the_argument_specs(role: Path) -> None:
    options = [item for spec in role_docs.specs(role).values() for item in spec.get("options", {}).items()]
    assert defaults(role) == {name: spec["default"] for name, spec in options if "default" in spec}


@each_role
def test_every_option_has_a_type_a_description_and_the_name_of_its_role(role: Path) -> None:
    for spec in role_docs.specs(role).values():
        for name, option in spec.get("options", {}).items():
            assert name.startswith(f"{role.name}_"), name
            assert option["type"], name
            assert option["description"], name


@each_role
def test_the_readme_is_that_of_the_argument_specs(role: Path) -> None:
    assert (role / "README.md").read_text() == role_docs.readme(role), "run `make generate`"


@each_role
def test_internal_variables_have_the_name_of_their_role(role: Path) -> None:
    for file in role.glob("vars/*.yml"):
        for name in yaml.safe_load(file.read_text()) or {}:
            assert name.startswith(f"__{role.name}_"), f"{name} in {file.name}"


def test_scenarios_kill_runs_at_tasks_that_exist() -> None:
    tasks = {name for role in ROLES for name in found_in(role / "tasks", r"- name: (.+)")}
    killed_at = found_in(SCENARIOS, r"/converge\.yml\"\n +- (.+)")
    assert killed_at
    assert killed_at <= tasks


def found_in(folder: Path, pattern: str) -> set[str]:
    return {match for file in folder.rglob("*.yml") for match in re.findall(pattern, file.read_text())}


@each_role
def test_facts_are_never_injected_variables(role: Path) -> None:
    injected = ("ansible_distribution", "ansible_os_family", "ansible_kernel", "ansible_hostname")
    for file in role.rglob("*.yml"):
        text = file.read_text()
        assert not [name for name in injected if f"{name} " in text or f"{name})" in text], file
