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


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_a_pod_is_kept_as_long_as_it_has_a_group_with_or_without_processes(
    tmp_path: Path, place: str
) -> None:
    (tmp_path / place).mkdir(parents=True)
    assert Cgroups(tmp_path).kept(frozenset({UID, "other"})) == {UID}
    (tmp_path / place).rmdir()
    assert Cgroups(tmp_path).kept(frozenset({UID})) == {UID}
    (tmp_path / place).parent.rmdir()
    assert not Cgroups(tmp_path).kept(frozenset({UID}))


def test_a_tree_without_pods_is_not_visible(tmp_path: Path) -> None:
    (tmp_path / "memory" / "system.slice").mkdir(parents=True)
    assert not Cgroups(tmp_path).visible
    assert not Cgroups(tmp_path / "nowhere").visible
