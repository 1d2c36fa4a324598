"""The cache of image builds, with real mounts."""

import subprocess
from pathlib import Path

import pytest

from release.build import remove_store


@pytest.mark.needs("root")
def test_a_store_is_removed_with_the_mounts_that_a_killed_container_has_left(tmp_path: Path) -> None:
    store, other = tmp_path / "store", tmp_path / "store-of-another"
    mounts = [store / "overlay", store / "overlay" / "layer" / "merged", other]
    try:
        for each in mounts:
            each.mkdir(parents=True)
            subprocess.run(["mount", "-t", "tmpfs", "none", str(each)], check=True)  # noqa: S603, S607
        remove_store(store)
        assert not store.exists()
        assert other.is_mount()
    finally:
        for each in reversed(mounts):
            subprocess.run(["umount", "--lazy", str(each)], check=False, stderr=subprocess.DEVNULL)  # noqa: S603, S607
