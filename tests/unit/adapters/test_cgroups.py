from pathlib import Path

import pytest

from gpushare.adapters.cgroups import Cgroups

UID = "0e5a7e0c-6f4f-4a53-9a53-0a2a8a4cbf6c"
PLACES = {
    "v1, cgroupfs": f"memory/kubepods/burstable/pod{UID}/0123abcd",
    "v1, guaranteed": f"memory/kubepods/pod{UID}/0123abcd",
    "v1, pids only": f"pids/kubepods/besteffort/pod{UID}/0123abcd",
    "v2, cgroupfs": f"kubepods/besteffort/pod{UID}/0123abcd",
    "v2, systemd": "kubepods.slice/kubepods-burstable.slice/"
    f"kubepods-burstable-pod{UID.replace('-', '_')}.slice/cri-containerd-0123abcd.scope",
    "v2, systemd, guaranteed": "kubepods.slice/"
    f"kubepods-pod{UID.replace('-', '_')}.slice/crio-0123abcd.scope",
}


def group(root: Path, place: str, processes: str) -> None:
    folder = root / place
    folder.mkdir(parents=True)
    (folder.parent / "cgroup.procs").write_text("")
    (folder / "cgroup.procs").write_text(processes)


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_a_pod_with_a_process_in_any_container_has_processes(tmp_path: Path, place: str) -> None:
    group(tmp_path, place, "4711\n")
    assert Cgroups(tmp_path).has_processes(UID)


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_a_pod_whose_groups_are_empty_has_none(tmp_path: Path, place: str) -> None:
    group(tmp_path, place, "")
    assert not Cgroups(tmp_path).has_processes(UID)


def test_a_pod_without_a_group_has_none(tmp_path: Path) -> None:
    group(tmp_path, PLACES["v2, systemd"], "4711\n")
    assert not Cgroups(tmp_path).has_processes("another")


def test_a_tree_without_pods_is_not_visible(tmp_path: Path) -> None:
    (tmp_path / "memory" / "system.slice").mkdir(parents=True)
    assert not Cgroups(tmp_path).visible
    assert not Cgroups(tmp_path / "nowhere").visible
