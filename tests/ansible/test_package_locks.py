"""The role packages waits for the lock of dpkg, with the real dpkg and apt-mark on a database of their own.

Another process holds the lock until the program of the role has failed once.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.ansible.cores import CORES, Ended, add_program, part_of, play
from tools.role_docs import ROLES

pytestmark = [
    pytest.mark.skipif(not shutil.which("apt-mark"), reason="apt-mark is not installed"),
    pytest.mark.needs("root"),
]
HOLDER = """
import fcntl, signal, sys
file = open(sys.argv[1], "w")
fcntl.lockf(file, fcntl.LOCK_EX)
print("locked", flush=True)
signal.pause()
"""
PACKAGE = """\
Package: handmade
Status: install ok unpacked
Priority: optional
Section: misc
Maintainer: x <x@example.com>
Architecture: all
Version: 1
Description: x

"""
SOON = {"__packages_lock_delay": 1, "__packages_lock_timeout": 20}
TASKS = ROLES / "packages/tasks"


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A database with one package, for all programs of dpkg and apt."""
    folder = tmp_path / "dpkg"
    for name in ("info", "updates", "triggers", "parts", "state/lists/partial"):
        (folder / name).mkdir(parents=True)
    (folder / "status").write_text(PACKAGE)
    (folder / "info/handmade.list").write_text("/usr/share/handmade\n")
    paths = {"Dir::State": folder / "state", "Dir::State::status": folder / "status", "Dir::Cache": folder}
    (folder / "apt.conf").write_text("".join(f'{key} "{path}";\n' for key, path in paths.items()))
    monkeypatch.setenv("DPKG_ADMINDIR", str(folder))
    monkeypatch.setenv("APT_CONFIG", str(folder / "apt.conf"))
    return folder


@pytest.fixture
def locked(database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Hold the lock; return the file with a line for each program that failed because of it."""
    failures = tmp_path / "failures"
    failures.touch()
    command = [sys.executable, "-c", HOLDER, str(database / "lock")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:  # noqa: S603 - our own text
        assert holder.stdout
        assert holder.stdout.readline() == "locked\n"
        for program in ("dpkg", "apt-mark"):
            script = (
                f'{shutil.which(program)} "$@" && exit\necho "$0" >>{failures}\nkill {holder.pid}\nexit 2'
            )
            add_program(tmp_path / "bin", program, script)
        monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
        yield failures
        holder.kill()


def waited(failures: Path, done: Ended) -> bool:
    """Whether one attempt failed, and a later one succeeded."""
    assert done.returncode == 0, done.stdout + done.stderr
    return len(failures.read_text().splitlines()) == 1


def status(database: Path) -> str:
    command = ["dpkg-query", f"--admindir={database}", "-W", "-f", "${Status}", "handmade"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603 - fixed command


@pytest.mark.parametrize("core", CORES)
def test_a_hold_waits(core: str, database: Path, locked: Path, tmp_path: Path) -> None:
    settings = {"packages_pinned_names": ["handmade"], **SOON}
    assert waited(locked, play(core, tmp_path, [part_of("packages", "hold_apt")], **settings))
    assert status(database) == "hold ok unpacked"


@pytest.mark.parametrize("core", CORES)
def test_the_repair_of_partly_installed_packages_waits(
    core: str, database: Path, locked: Path, tmp_path: Path
) -> None:
    settings = {
        "packages_pinned_names": [],
        "packages_pinned_because": "test",
        "packages_pinned_hold": False,
        "ansible_facts": {"os_family": "Debian", "packages": {}, "pkg_mgr": "apt"},
        **SOON,
    }
    assert waited(locked, play(core, tmp_path, [part_of("packages", "pinned")], **settings))
    assert status(database) == "install ok installed"


@pytest.mark.parametrize("core", CORES)
def test_the_release_of_a_held_package_waits(core: str, database: Path, locked: Path, tmp_path: Path) -> None:
    (database / "status").write_text(PACKAGE.replace("install ok", "hold ok"))
    (release,) = (each for each in tasks("install_apt") if "dpkg_selections" in str(each))
    settings = {
        "__packages_due": True,
        "__packages_replaced": ["handmade"],
        "__packages_lock_retries": 20,
        **SOON,
    }
    assert waited(locked, play(core, tmp_path, [release], **settings))
    assert status(database) == "install ok unpacked"


def test_another_failure_ends_the_run_at_once(database: Path, tmp_path: Path) -> None:
    settings = {"packages_pinned_names": ["absent"], **SOON}
    done = play("2.19", tmp_path, [part_of("packages", "hold_apt")], **settings)
    assert done.returncode != 0
    assert "RETRYING" not in done.stdout
    assert status(database) == "install ok unpacked"


def tasks(file: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load((TASKS / f"{file}.yml").read_text())
    return found


def test_every_use_of_apt_waits_and_restarts_no_service() -> None:
    uses = [
        task
        for file in ROLES.glob("*/tasks/*.yml")
        for task in yaml.safe_load(file.read_text()) or []
        if "ansible.builtin.apt" in task
    ]
    assert uses
    for task in uses:
        module = task["ansible.builtin.apt"]
        assert module["lock_timeout"] == "{{ __packages_lock_timeout }}", task["name"]
        suspended = task.get("environment") == "{{ __packages_no_restarts }}"
        assert suspended or module.get("update_cache"), task["name"]


def test_the_command_of_apt_waits_and_restarts_no_service() -> None:
    (step,) = (task for task in tasks("install_apt") if "__packages_apt_install" in str(task))
    assert "__packages_no_restarts" in step["environment"]
    variables = yaml.safe_load((ROLES / "packages/vars/main.yml").read_text())
    words = variables["__packages_apt_install"]
    assert "--option=DPkg::Lock::Timeout={{ __packages_lock_timeout }}" in words
