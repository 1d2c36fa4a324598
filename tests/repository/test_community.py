"""The files by which others join are complete, and agree with the tools."""

import configparser
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
GITHUB = ROOT / ".github"
FORMS = sorted(path for path in (GITHUB / "ISSUE_TEMPLATE").glob("*.yml") if path.stem != "config")


def editorconfig() -> configparser.ConfigParser:
    parser = configparser.ConfigParser()
    parser.read_string("[top]\n" + (ROOT / ".editorconfig").read_text())
    return parser


def test_editors_break_lines_where_the_linters_do() -> None:
    rules = editorconfig()
    ruff = tomllib.loads((ROOT / "ruff.toml").read_text())
    assert rules["*"].getint("max_line_length") == ruff["line-length"]
    yamllint = yaml.safe_load((ROOT / ".yamllint").read_text())["rules"]["line-length"]
    assert rules["*.{yaml,yml,json,j2}"].getint("max_line_length") == yamllint["max"]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.stem)
def test_a_form_of_an_issue_is_one_that_github_accepts(form: Path) -> None:
    document: dict[str, Any] = yaml.safe_load(form.read_text())
    assert set(document) == {"name", "description", "labels", "body"}
    fields = [each for each in document["body"] if each["type"] != "markdown"]
    assert {each["type"] for each in fields} <= {"checkboxes", "dropdown", "input", "textarea"}
    assert all(each["attributes"]["label"] for each in fields)
    identifiers = [each["id"] for each in fields]
    assert len(set(identifiers)) == len(identifiers)


def test_the_files_that_a_form_names_exist() -> None:
    for form in FORMS:
        for name in re.findall(r"[\w/-]+\.md", form.read_text()):
            assert (ROOT / name).is_file(), name


def test_owners_are_a_team_of_the_project() -> None:
    lines = (GITHUB / "CODEOWNERS").read_text().splitlines()
    rules = [line.split() for line in lines if line and not line.startswith("#")]
    assert rules[0][0] == "*"
    assert {owner for _, *owners in rules for owner in owners} == {"@gpushare/maintainers"}
