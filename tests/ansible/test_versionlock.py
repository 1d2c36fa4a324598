"""The role packages holds packages of Red Hat, in check mode on a host without the versionlock plugin."""

import os
from pathlib import Path

import pytest

from tests.ansible import fake_packages
from tests.ansible.cores import OLD, add_program, part_of, play

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
    add_program(tmp_path / "bin", manager, "echo 'No such command: versionlock' >&2\nexit 1")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    settings = {
        "packages_pinned_names": ["nvidia-driver"],
        "packages_pinned_because": "test",
        "packages_facts_current": True,
        "ansible_facts": {"os_family": "RedHat", "packages": INSTALLED, "pkg_mgr": manager},
    }
    done = play(core, tmp_path, [part_of("packages", "pinned")], "--check", **settings)
    assert done.returncode == 0, done.stdout
    assert names.read_text().split() == [PLUGINS[manager]]
