"""The role packages with dnf: holds, in check mode without the plugin versionlock, and replaced packages."""

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


@pytest.mark.parametrize(("replaced", "erases"), [([], False), (["kmod-nvidia-latest-dkms"], True)])
def test_dnf_may_erase_only_what_a_new_package_replaces(
    replaced: list[str],
    erases: bool,  # noqa: FBT001 - of a table
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """``kmod-nvidia-open-dkms`` conflicts with it (dkms-open-nvidia.spec of NVIDIA, read on 2026-11-28)."""
    names = fake_packages.record(tmp_path, monkeypatch)
    settings = {
        "packages_pinned_names": ["kmod-nvidia-open-dkms"],
        "packages_pinned_version": "",
        "packages_pinned_replaced": replaced,
        "packages_pinned_hold": False,
        "__packages_all_pins": {"kmod-nvidia-open-dkms": "580.178.04"},
        "ansible_facts": {"os_family": "RedHat", "packages": {}, "pkg_mgr": "dnf"},
    }
    done = play("2.19", tmp_path, [part_of("packages", "install_dnf")], **settings)
    assert done.returncode == 0, done.stdout
    assert names.read_text().split() == ["kmod-nvidia-open-dkms-580.178.04"] + ["allowerasing"] * erases
