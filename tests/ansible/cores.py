"""Playbooks with the versions of ansible-core that are supported; for tests of this folder."""

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support import ansible

CHECKOUT = Path(__file__).parents[2]
PROGRAMS = {
    core: CHECKOUT / "ansible" / venv / "bin/ansible-playbook"
    for core, venv in (("2.19", ".venv"), ("2.16", "legacy/.venv"), ("2.21", "newest/.venv"))
}
"""Version → its ansible-playbook."""
_OURS = next(iter(PROGRAMS))
OLD = pytest.mark.long("tests/ansible with the oldest ansible-core")
NEW = pytest.mark.long("tests/ansible with the newest ansible-core")
CORES = [_OURS, pytest.param("2.16", marks=OLD), pytest.param("2.21", marks=NEW)]
"""The versions as parameters of a test."""
Ended = subprocess.CompletedProcess[str]


def missing(core: str) -> str:
    """Why an environment is not there, or how to get it."""
    return "no Python 3.12 or later" if core == "2.21" else "`make setup-ansible` makes it"


def run(core: str, *arguments: str | Path) -> Ended:
    if not PROGRAMS[core].exists():
        pytest.skip(f"{PROGRAMS[core]} is not there: {missing(core)}")
    return subprocess.run(  # noqa: S603 - our own program and files
        [PROGRAMS[core], *arguments],
        cwd=CHECKOUT,
        env={**ansible.environment(), **os.environ, "ANSIBLE_NOCOLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def play(core: str, folder: Path, tasks: Sequence[dict[str, Any]], *flags: str, **variables: Any) -> Ended:
    """Run tasks on this machine with the Python of Ansible; the play is a file in ``folder``."""
    settings = {"ansible_python_interpreter": "{{ ansible_playbook_python }}", **variables}
    file = folder / "play.json"
    file.write_text(json.dumps([{"hosts": "localhost", "gather_facts": False, "tasks": tasks}]))
    extra = f"--extra-vars={json.dumps(settings)}"
    return run(core, *flags, "--connection=local", "--inventory=localhost,", extra, file)


def part_of(role: str, entry: str, **options: bool) -> dict[str, Any]:
    """The task that includes one file of tasks of our role."""
    role_options = {"name": f"gpushare.nodes.{role}", "tasks_from": entry, **options}
    return {"ansible.builtin.include_role": role_options}


def printed(ended: Ended) -> str:
    """The output without line breaks, where Ansible has wrapped messages."""
    return " ".join((ended.stdout + ended.stderr).split())


def add_program(folder: Path, name: str, script: str) -> None:
    """Write a shell script that a test runs instead of a program."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)
