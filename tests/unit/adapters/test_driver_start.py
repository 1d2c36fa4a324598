"""The identity of a start of the kernel driver."""

from pathlib import Path

import pytest

from gpushare.adapters.driver_start import driver_start

BOOT = "6b1f7c54-0d2b-4f2e-9f0e-6f1c4d7a1b11"


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    file = tmp_path / "proc" / "sys" / "kernel" / "random" / "boot_id"
    file.parent.mkdir(parents=True)
    file.write_text(f"{BOOT}\n")
    return tmp_path / "proc"


def load(sysfs: Path, name: str) -> None:
    """Let the folder of the module be that of another load."""
    (sysfs / "module" / name).mkdir(parents=True)
    (sysfs / "module" / name).rename(sysfs / "module" / "nvidia")


def test_a_start_stays_the_same_until_the_module_is_loaded_again(tmp_path: Path, proc: Path) -> None:
    sysfs = tmp_path / "sys"
    # Both exist at the same time, so that the second has another inode as in sysfs.
    (sysfs / "module" / "second").mkdir(parents=True)
    load(sysfs, "first")
    first = driver_start(proc, sysfs)
    assert first == driver_start(proc, sysfs)
    (sysfs / "module" / "nvidia").rmdir()
    unloaded = driver_start(proc, sysfs)
    (sysfs / "module" / "second").rename(sysfs / "module" / "nvidia")
    assert len({first, unloaded, driver_start(proc, sysfs)}) == 3


def test_a_reboot_is_another_start(tmp_path: Path, proc: Path) -> None:
    before = driver_start(proc, tmp_path)
    (proc / "sys" / "kernel" / "random" / "boot_id").write_text("another\n")
    assert before != driver_start(proc, tmp_path)


def test_without_a_boot_id_the_start_is_unknown(tmp_path: Path) -> None:
    assert driver_start(tmp_path, tmp_path) == ""


def test_this_machine_has_a_start() -> None:
    assert driver_start()
