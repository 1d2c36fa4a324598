"""The role packages holds packages of Red Hat, in check mode on a host without the versionlock plugin."""

import json
import os
from pathlib import Path

import pytest
import yaml

from tests.ansible import fake_packages
from tests.ansible.cores import OLD, run

PLUGINS = {"dnf": "python3-dnf-plugin-versionlock", "yum": "yum-plugin-versionlock"}
INSTALLED = {"nvidia-driver": [{"name": "nvidia-driver", "version": "580.65.06"}]}


# Only ansible-core 2.16 has yum.
@pytest.mark.parametrize(
    ("core", "manager"),
    [("2.19", "dnf"), pytest.param("2.16", "dnf", marks=OLD), pytest.param("2.16", "yum", marks=OLD)],
)
def test_check_mode_works_without_the_plugin(
    core: str, manager: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = fake_packages.record(tmp_path, monkeypatch)
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / manager).write_text("#!/bin/sh\necho 'No such command: versionlock' >&2\nexit 1\n")
    (programs / manager).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    settings = {
        "packages_pinned_names": ["nvidia-driver"],
        "packages_pinned_because": "test",
        "packages_facts_current": True,
        "ansible_python_interpreter": "{{ ansible_playbook_python }}",
        "ansible_facts": {"os_family": "RedHat", "packages": INSTALLED, "pkg_mgr": manager},
    }
    role = {"name": "gpushare.nodes.packages", "tasks_from": "pinned"}
    file = tmp_path / "play.yml"
    tasks = [{"ansible.builtin.include_role": role}]
    file.write_text(yaml.safe_dump([{"hosts": "localhost", "gather_facts": False, "tasks": tasks}]))
    extra = f"--extra-vars={json.dumps(settings)}"
    done = run(core, "--check", "--connection=local", "--inventory=localhost,", extra, file)
    assert done.returncode == 0, done.stdout
    assert names.read_text().split() == [PLUGINS[manager]]
