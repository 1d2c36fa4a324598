"""No text sends users to a package index, where anyone could register our names."""

import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
OURS = r"gpushare(?:[-_.]\w+)*"
INSTALLERS = re.compile(
    r"\b(?:pip[x3]?|uvx?|poetry|pdm|conda|ansible-galaxy)\b[ \w-]*? (?:install|add)\b"
    r"(?P<words>(?: [^\s`$]+){1,8})"
)
REQUIREMENT = re.compile(rf"""(?!.*\.(?:whl|tar\.gz))['"`(]*{OURS}(?:[\[=<>~!;,.)'"`].*)?""")


def files(*patterns: str) -> list[Path]:
    """Tracked files, except this one."""
    argv = ["git", "ls-files", "-z", *patterns]
    listed = subprocess.check_output(argv, cwd=ROOT, text=True)  # noqa: S603 - our own words
    found = (ROOT / name for name in listed.split("\0") if name)
    return [path for path in found if path.is_file() and path != Path(__file__)]


def installed(text: str) -> list[str]:
    """Our requirements in commands that install from an index, with any line breaks."""
    words = (word for match in INSTALLERS.finditer(" ".join(text.split())) for word in match["words"].split())
    return [word for word in words if REQUIREMENT.fullmatch(word)]


@pytest.mark.parametrize(
    "text",
    [
        "install it with `pip install gpushare pyyaml` or",
        "pip install 'gpushare[cli]'",
        "python -m pip install --upgrade\n    gpushare-kubernetes==0.1.0",
        "uv pip install --python .venv gpushare_kubernetes",
        "uv tool install gpushare.",
        "pipx install gpushare",
        "ansible-galaxy collection install gpushare.nodes",
    ],
)
def test_a_command_that_installs_our_name_from_an_index_is_found(text: str) -> None:
    assert installed(text)


@pytest.mark.parametrize(
    "text",
    [
        "pip install dist/gpushare_kubernetes-0.1.0-py3-none-any.whl",
        "ansible-galaxy collection install gpushare-nodes-0.1.0.tar.gz",
        "gpushare isolation install --package=/usr/local/lib/gpushare",
    ],
)
def test_other_commands_are_not(text: str) -> None:
    assert not installed(text)


def test_no_text_of_the_repository_installs_us_from_an_index() -> None:
    found = {}
    for path in files():
        try:
            words = installed(path.read_text())
        except UnicodeDecodeError:
            continue
        if words:
            found[str(path.relative_to(ROOT))] = words
    assert not found


@pytest.mark.parametrize("file", files("*pyproject.toml"), ids=lambda path: str(path.relative_to(ROOT)))
def test_no_project_requires_a_distribution_of_our_names_but_itself(file: Path) -> None:
    document = tomllib.loads(file.read_text())
    others = [
        each for each in requirements(document) if not each.startswith(f"{document['project']['name']}[")
    ]
    assert not [each for each in others if re.match(OURS, each)]


def requirements(document: dict[str, Any]) -> Iterator[str]:
    project = document["project"]
    for part in (
        project.get("dependencies", ()),
        *project.get("optional-dependencies", {}).values(),
        *document.get("dependency-groups", {}).values(),
    ):
        yield from (each for each in part if isinstance(each, str))
