import os
from pathlib import Path

import pytest

from gpushare.adapters.mounts import MountSource, is_separate_filesystem, noexec_mount_of, source_of

INSIDE = "/.gpushare/region"
TEXT = f"""\
21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/root rw
36 21 0:25 /gpushare/aa/limit /.gpushare/limit ro - tmpfs tmpfs rw
37 21 0:25 /gpushare/aa/region {INSIDE} rw,nosuid master:2 - tmpfs tmpfs rw
38 37 0:99 /other/region {INSIDE} rw - tmpfs tmpfs rw
39 21 0:99 {INSIDE} /elsewhere rw - tmpfs tmpfs rw
"""


def test_the_first_mount_at_a_path_has_its_source_on_the_node(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "mountinfo").write_text(TEXT)
    assert source_of(INSIDE, 7, tmp_path) == MountSource("0:25", "/gpushare/aa/region")
    assert source_of("/.gpushare", 7, tmp_path) is None


@pytest.mark.parametrize("text", ["", "/.gpushare/region", "1 2 /.gpushare/region\n", "\x00\xff"])
def test_an_invalid_list_of_mounts_has_no_mounts(tmp_path: Path, text: str) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "mountinfo").write_text(text)
    assert source_of(INSIDE, 7, tmp_path) is None


def test_a_process_that_has_ended_has_nothing_mounted(tmp_path: Path) -> None:
    assert source_of(INSIDE, 7, tmp_path) is None


def test_the_device_in_mountinfo_is_that_of_stat() -> None:
    found = source_of("/", os.getpid(), Path("/proc"))
    device = Path("/").stat().st_dev
    assert found is None or found.device == f"{os.major(device)}:{os.minor(device)}"


@pytest.mark.parametrize("root", ["/", "/gpushare", None])
def test_only_the_root_of_a_filesystem_is_separate(tmp_path: Path, root: str | None) -> None:
    (tmp_path / str(os.getpid())).mkdir()
    mount = "" if root is None else f"36 21 0:25 {root} /no/such/folder rw - tmpfs tmpfs rw\n"
    (tmp_path / str(os.getpid()) / "mountinfo").write_text(f"21 1 8:1 / / rw - ext4 /dev/root rw\n{mount}")
    assert is_separate_filesystem(Path("/no/such/folder"), tmp_path) == (root == "/")


NODE = """\
21 1 8:1 / / ro,relatime shared:1 - ext2 /dev/dm-0 ro
30 21 8:1 /var /var rw,nosuid,nodev,noexec,relatime shared:9 - ext4 /dev/sda1 rw,commit=30
31 30 8:1 /var/lib/docker /var/lib/docker rw,nosuid,nodev,relatime shared:10 - ext4 /dev/sda1 rw,commit=30
32 21 8:1 /home /home rw,nosuid,nodev,noexec,relatime shared:11 - ext4 /dev/sda1 rw,commit=30
33 32 8:1 /home/kubernetes/bin /home/kubernetes/bin rw,nosuid,nodev,relatime shared:12 - ext4 /dev/sda1 rw
34 21 0:30 / /data\\040disk rw,noexec - tmpfs noexec rw
35 21 0:31 / /srv rw,noexec - tmpfs tmpfs rw
36 21 0:32 / /srv rw - tmpfs tmpfs rw
37 21 0:33 / /srv/noexec rw - tmpfs noexec rw
38 21
"""
"""A node like Container-Optimized OS, and odd mounts. Sources: cloud.google.com/container-optimized-os/docs/
concepts/disks-and-filesystem (2025-09-04); for /home/kubernetes/bin, the cloud-config of kube-up."""


@pytest.mark.parametrize(
    ("folder", "expected"),
    [
        ("/var/lib/gpushare", "/var"),
        ("/var", "/var"),
        ("/variable/gpushare", None),
        ("/var/lib/docker/gpushare", None),
        ("/home/kubernetes/gpushare", "/home"),
        ("/home/kubernetes/bin/gpushare", None),
        ("/opt/gpushare", None),
        ("/data disk/gpushare", "/data disk"),
        ("/srv/gpushare", None),
        ("/srv/noexec/gpushare", None),
    ],
)
def test_a_folder_is_noexec_if_the_innermost_mount_of_the_node_is(
    tmp_path: Path, folder: str, expected: str | None
) -> None:
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "mountinfo").write_text(NODE)
    assert noexec_mount_of(Path(folder), tmp_path) == expected


def test_without_the_mounts_of_the_node_no_folder_is_noexec(tmp_path: Path) -> None:
    assert noexec_mount_of(Path("/var/lib/gpushare"), tmp_path) is None
