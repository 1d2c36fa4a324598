"""Playbooks with the versions of ansible-core that are supported; for tests of this folder."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.support import ansible

CHECKOUT = Path(__file__).parents[2]
PROGRAMS = {
    core: CHECKOUT / "ansible" / venv / "bin/ansible-playbook"
    for core, venv in (("2.19", ".venv"), ("2.16", "legacy/.venv"))
}
"""Version → its ansible-playbook."""
_NEWEST = next(iter(PROGRAMS))
OLD = pytest.mark.long("tests/ansible with the oldest ansible-core")
CORES = [core if core == _NEWEST else pytest.param(core, marks=OLD) for core in PROGRAMS]
"""The versions as parameters of a test."""


def run(core: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    if not PROGRAMS[core].exists():
        pytest.skip(f"{PROGRAMS[core]} is not there: `make setup-ansible` makes it")
    return subprocess.run(  # noqa: S603 - our own program and files
        [PROGRAMS[core], *arguments],
        cwd=CHECKOUT,
        env={**ansible.environment(), **os.environ, "ANSIBLE_NOCOLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
