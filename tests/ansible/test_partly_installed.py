"""The role packages finishes what an interrupted dpkg has left, with the real dpkg on its own database."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.ansible.cores import CORES, part_of, play

pytestmark = pytest.mark.skipif(not shutil.which("dpkg"), reason="dpkg is not installed")


def repaired(folder: Path, core: str, status: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run the role on a database with one package, which has no checksums; return what the role did."""
    database = folder / "dpkg"
    for name in ("info", "updates", "triggers", "parts"):
        (database / name).mkdir(parents=True)
    about = (
        "Priority: optional\nSection: misc\nMaintainer: x <x@example.com>\nArchitecture: all\nVersion: 1\n"
    )
    (database / "status").write_text(
        f"Package: handmade\nStatus: install ok {status}\n{about}Description: x\n\n"
    )
    (database / "info/handmade.list").write_text("/usr/share/handmade\n")
    monkeypatch.setenv("DPKG_ADMINDIR", str(database))
    settings = {
        "packages_pinned_names": [],
        "packages_pinned_because": "test",
        "packages_pinned_hold": False,
        "ansible_facts": {"os_family": "Debian", "packages": {}, "pkg_mgr": "apt"},
    }
    return play(core, folder, [part_of("packages", "pinned")], **settings).stdout


def state(folder: Path) -> str:
    command = ["dpkg-query", f"--admindir={folder}/dpkg", "-W", "-f", "${db:Status-Status}", "handmade"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603 - fixed command


@pytest.mark.needs("root")
@pytest.mark.parametrize("core", CORES)
def test_an_unpacked_package_is_configured(
    core: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = repaired(tmp_path, core, "unpacked", monkeypatch)
    assert "changed: [localhost]" in done, done
    assert state(tmp_path) == "installed"


@pytest.mark.parametrize("core", CORES)
def test_a_package_without_checksums_is_complete(
    core: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = repaired(tmp_path, core, "installed", monkeypatch)
    assert "Finish their installation" in done
    assert "changed: [localhost]" not in done, done
