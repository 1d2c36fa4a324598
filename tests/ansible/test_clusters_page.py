"""The page "Several clusters": its inventories merge as it says, and its loop stops at an unfit cluster."""

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.support import needs
from tests.support.pages import Command, Written, steps, unmet

ROOT = Path(__file__).parents[2]
STEPS = steps((ROOT / "docs/how-to/clusters.md").read_text())
FILES = {each.path: each.text for each in STEPS if isinstance(each, Written) and each.path}
CLUSTERS = ["staging", "west", "east"]
STUB = """\
#!/bin/sh
echo "${0##*/} $*" >> "$LOG"
case "$*" in "ready STACK=$SICK "*) exit 1;; esac
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with the files of the page, and the configuration of Ansible."""
    for path, text in FILES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    (tmp_path / "ansible.cfg").write_text((ROOT / "ansible.cfg").read_text())
    return tmp_path


def test_a_host_has_the_shared_values_and_those_of_its_cluster(checkout: Path) -> None:
    (command,) = [each for each in STEPS if isinstance(each, Command)]
    program, *arguments = shlex.split(command.line)
    ended = subprocess.run(  # noqa: S603 - the command of our page
        [needs.PLAYBOOK.with_name(program), *arguments],
        cwd=checkout,
        env={"HOME": str(checkout), "PATH": os.defpath, "ANSIBLE_CALLBACKS_ENABLED": ""},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert not unmet(command.expected, ended.stdout), ended.stdout


def test_the_stack_of_the_page_names_its_cluster() -> None:
    assert yaml.safe_load(FILES["Pulumi.west.yaml"])["config"]["gpushare:context"] == "west"


@pytest.mark.parametrize("sick", [*CLUSTERS, ""])
def test_the_first_cluster_that_is_not_fit_ends_a_promotion(checkout: Path, sick: str) -> None:
    programs = checkout / "bin"
    programs.mkdir()
    for name in ("make", "kubectl", "ansible-playbook"):
        (programs / name).write_text(STUB)
        (programs / name).chmod(0o755)
    log = checkout / "log"
    ended = subprocess.run(
        ["/bin/sh", "promote.sh"],
        cwd=checkout,
        env={"PATH": f"{programs}:{os.defpath}", "LOG": str(log), "SICK": sick or "none"},
        check=False,
        timeout=60,
    )
    changed = re.findall("^make up STACK=(.*)$", log.read_text(), re.MULTILINE)
    reached = CLUSTERS[: CLUSTERS.index(sick) + 1] if sick else CLUSTERS
    assert (changed, ended.returncode) == (reached, 1 if sick else 0)
