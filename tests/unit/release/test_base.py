"""Bases from apt packages: when one is made again, and how old it is. No package is installed here."""

import re
import subprocess
from collections.abc import Sequence
from datetime import date
from pathlib import Path

import pytest

from devkit.errors import DevkitError
from release import base, needs, snapshot
from release.recipe import ROOT

# The first lines of the Release files of Debian 12, on 2026-11-28.
RELEASES = """\
Origin: Debian
Suite: oldstable
Date: Sat, 11 Jul 2026 09:28:22 UTC
Valid-Until: Sat, 18 Jul 2026 09:28:22 UTC
Origin: Debian
Suite: oldstable-security
Date: Fri, 27 Nov 2026 20:31:04 UTC
"""


class Machine:
    """A machine whose mirror has these packages; ``runs`` are the commands of mmdebstrap."""

    def __init__(self) -> None:
        self.packages = "libc6 1"
        self.releases = RELEASES
        self.runs: list[list[str]] = []

    async def run(self, command: Sequence[str], timeout_s: float) -> str:
        assert timeout_s > 0
        self.runs.append(list(command))
        tar = next(Path(word) for word in command if word.endswith("base.tar"))
        tar.write_text(self.packages)
        (tar.parent / "releases").write_text(self.releases)
        return ""


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Machine:
    found = Machine()
    (tmp_path / "os-release").write_text('NAME="Debian"\nID=debian\nVERSION_CODENAME=bookworm\n')
    (tmp_path / "sources.list").write_text("deb http://deb.debian.org/debian bookworm main\n")
    monkeypatch.setattr(base, "_RELEASE", tmp_path / "os-release")
    monkeypatch.setattr(base, "_APT", tmp_path)
    monkeypatch.setattr(base, "run_text", found.run)
    monkeypatch.setattr(needs, "look", lambda: None)
    return found


@pytest.mark.asyncio
async def test_a_base_is_made_once_from_the_mirror_of_the_machine(machine: Machine, tmp_path: Path) -> None:
    first = await base.ensure(tmp_path / "cache")
    assert await base.ensure(tmp_path / "cache") == first
    ((*_, origin),) = machine.runs
    assert origin == str(tmp_path / "sources.list")
    assert first.day == date(2026, 11, 27)


@pytest.mark.asyncio
async def test_newer_packages_of_the_mirror_come_with_a_refresh_only(
    machine: Machine, tmp_path: Path
) -> None:
    old = await base.ensure(tmp_path / "cache")
    machine.packages, machine.releases = "libc6 2", "Date: Sat, 28 Nov 2026 08:00:00 UTC\n"
    assert await base.ensure(tmp_path / "cache") == old
    new = await base.ensure(tmp_path / "cache", refresh=True)
    assert new.image != old.image
    assert new.day == date(2026, 11, 28)
    assert (new.folder / "base.tar").read_text() == "libc6 2"


@pytest.mark.asyncio
async def test_a_refresh_without_newer_packages_changes_nothing(machine: Machine, tmp_path: Path) -> None:
    """So that the images keep their digests."""
    old = await base.ensure(tmp_path / "cache")
    machine.releases = "Date: Sat, 28 Nov 2026 08:00:00 UTC\n"
    assert await base.ensure(tmp_path / "cache", refresh=True) == old
    assert [each.name for each in old.folder.parent.iterdir()] == [old.folder.name]


@pytest.mark.asyncio
async def test_a_raised_day_makes_the_base_again_and_removes_the_old_one(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = await base.ensure(tmp_path / "cache")
    compiler = await base.ensure(tmp_path / "cache", base.COMPILER)
    monkeypatch.setattr(base, "SNAPSHOT", "29991231")
    new = await base.ensure(tmp_path / "cache")
    assert len(machine.runs) == 3
    assert [each.folder.exists() for each in (old, compiler, new)] == [False, True, True]


@pytest.mark.asyncio
async def test_a_base_that_could_not_be_made_leaves_the_one_before(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = await base.ensure(tmp_path / "cache")

    async def fail(command: Sequence[str], timeout_s: float) -> str:
        raise DevkitError(f"{command[2]} ended with 25 of {timeout_s:g}")

    monkeypatch.setattr(base, "run_text", fail)
    with pytest.raises(DevkitError, match="mmdebstrap ended with 25"):
        await base.ensure(tmp_path / "cache", refresh=True)
    assert await base.ensure(tmp_path / "cache") == old
    assert len(machine.runs) == 1


@pytest.mark.asyncio
async def test_a_snapshot_service_gives_the_packages_of_the_day(machine: Machine, tmp_path: Path) -> None:
    await base.ensure(tmp_path / "cache", service="https://snapshot.debian.org/archive/")
    origin = machine.runs[0][-3:]
    day = f"{snapshot.SNAPSHOT}T000000Z"
    assert [line.partition("] ")[2] for line in origin] == [
        f"https://snapshot.debian.org/archive/debian/{day} bookworm main",
        f"https://snapshot.debian.org/archive/debian/{day} bookworm-updates main",
        f"https://snapshot.debian.org/archive/debian-security/{day} bookworm-security main",
    ]
    assert all("check-valid-until=no signed-by=" in line for line in origin)


def test_ubuntu_has_its_archive_and_security_updates_in_one_place() -> None:
    lines = snapshot.archives("http://snapshot.ubuntu.com", "ubuntu", "noble")
    assert [line.rpartition("Z ")[2] for line in lines] == [
        "noble main universe",
        "noble-updates main universe",
        "noble-security main universe",
    ]


def test_a_system_without_known_snapshots_is_an_error() -> None:
    with pytest.raises(DevkitError, match="no snapshots of devuan are known"):
        snapshot.archives("https://s", "devuan", "daedalus")


def test_release_files_without_a_date_are_an_error() -> None:
    with pytest.raises(DevkitError, match="have no Date"):
        base.newest("Origin: Debian\n")


@pytest.mark.parametrize(("today", "text"), [(28, "(1 day old)"), (27, "(0 days old)"), (30, "(3 days old)")])
def test_the_age_is_told_in_days(today: int, text: str) -> None:
    assert base.age(date(2026, 11, 27), date(2026, 11, today)) == f"packages of 2026-11-27 {text}"


def test_a_folder_with_a_space_reaches_the_hook_as_one_word() -> None:
    command = base.command("bookworm", Path("/my cache"), ["sources.list"])
    assert "--customize-hook=download /tmp/releases '/my cache/releases'" in command


def test_the_documented_command_raises_the_day(tmp_path: Path) -> None:
    page = (ROOT / "docs/how-to/build-images.md").read_text()
    command = next(line for line in page.splitlines() if line.startswith("$ sed -i"))
    file = tmp_path / "release/snapshot.py"
    file.parent.mkdir()
    file.write_text((ROOT / "release/snapshot.py").read_text())
    subprocess.run(["sh", "-c", command.removeprefix("$ ")], cwd=tmp_path, check=True)  # noqa: S603, S607
    found = re.search(r'^SNAPSHOT: Final = "(\d{8})"$', file.read_text(), re.MULTILINE)
    assert found is not None
    assert found[1] >= snapshot.SNAPSHOT
