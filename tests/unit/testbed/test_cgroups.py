"""Removing the cgroups of a testbed never affects others."""

from pathlib import Path

from testbed.system import cgroups


def test_cgroup_v2_has_no_hierarchies(tmp_path: Path) -> None:
    (tmp_path / "cgroup.procs").touch()
    (tmp_path / "system.slice").mkdir()
    (tmp_path / "system.slice" / "cgroup.procs").touch()
    assert cgroups.hierarchies(tmp_path) == []


def test_only_matching_cgroups_are_removed_with_those_below(tmp_path: Path) -> None:
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cgroup.procs").touch()
    for name in ("bed.a/kubepods/pod", "bed.ab", "other.a"):
        (tmp_path / "cpu" / name).mkdir(parents=True)
    cgroups.remove("bed.a", tmp_path)
    assert {each.name for each in (tmp_path / "cpu").glob("*/")} == {"bed.ab", "other.a"}
    cgroups.remove("bed.*", tmp_path)
    assert {each.name for each in (tmp_path / "cpu").glob("*/")} == {"other.a"}


def test_testbeds_do_not_share_cgroups() -> None:
    assert cgroups.prefix_of(Path("/beds/a")) != cgroups.prefix_of(Path("/beds/b"))
