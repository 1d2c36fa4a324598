"""A node's control groups exist in every hierarchy, and go with what is in them."""

from pathlib import Path

import pytest

from testbed.errors import TestbedError
from testbed.system import cgroups


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two hierarchies, one of them under two names, and no real cgroup file system."""
    for name in ("cpu,cpuacct", "cpuset"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "cgroup.procs").touch()
    (tmp_path / "cpu").symlink_to(tmp_path / "cpu,cpuacct")
    (tmp_path / "cpuset" / "cpuset.cpus").write_text("0-1")
    (tmp_path / "cpuset" / "cpuset.mems").write_text("0")
    return tmp_path


def test_a_hierarchy_with_two_names_is_one(root: Path) -> None:
    assert [each.name for each in cgroups.hierarchies(root)] == ["cpu,cpuacct", "cpuset"]


def test_groups_of_cgroup_v2_are_no_hierarchies(tmp_path: Path) -> None:
    (tmp_path / "cgroup.procs").touch()
    (tmp_path / "system.slice").mkdir()
    (tmp_path / "system.slice" / "cgroup.procs").touch()
    assert cgroups.hierarchies(tmp_path) == []


def test_a_group_gets_processors_and_memory_from_above(root: Path) -> None:
    cgroups.create("bed.node", root)
    assert (root / "cpu,cpuacct" / "bed.node").is_dir()
    assert (root / "cpuset" / "bed.node" / "cpuset.cpus").read_text() == "0-1"
    assert (root / "cpuset" / "bed.node" / "cpuset.mems").read_text() == "0"


def test_only_what_matches_is_removed_with_all_below(root: Path) -> None:
    for name in ("bed.a/kubepods/pod", "bed.ab", "other.a"):
        (root / "cpu" / name).mkdir(parents=True)
    cgroups.remove("bed.a", root)
    assert {each.name for each in (root / "cpu").glob("*/")} == {"bed.ab", "other.a"}
    cgroups.remove("bed.*", root)
    assert {each.name for each in (root / "cpu").glob("*/")} == {"other.a"}


def test_a_group_that_stays_is_named(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroups, "_REMOVE_S", 0.0)
    (root / "cpu" / "bed.a").mkdir()
    (root / "cpu" / "bed.a" / "busy").touch()
    with pytest.raises(TestbedError, match=r"cannot remove .*bed\.a: .*stop the processes in it"):
        cgroups.remove("bed.a", root)


def test_beds_do_not_share_their_groups() -> None:
    assert cgroups.prefix_of(Path("/beds/a")) != cgroups.prefix_of(Path("/beds/b"))
