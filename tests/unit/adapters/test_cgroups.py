import os
from pathlib import Path
from unittest import mock

import pytest

from gpushare.adapters.cgroups import Cgroups, containers_of, parse_container
from gpushare.errors import KubeletError
from gpushare.model.local_node import ContainerRef

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
    assert Cgroups(tmp_path).kept(frozenset({UID, "other"})) == frozenset({UID})
    (tmp_path / place).rmdir()
    assert Cgroups(tmp_path).kept(frozenset({UID})) == frozenset({UID})
    (tmp_path / place).parent.rmdir()
    assert not Cgroups(tmp_path).kept(frozenset({UID}))


NESTED = {
    "v1, kubelet in a container": f"pids/docker/{64 * '0'}/kubelet/kubepods/burstable/pod{UID}",
    "v2, kubelet in a container, systemd": "system.slice/docker-0123.scope/kubelet.slice/"
    f"kubelet-kubepods.slice/kubelet-kubepods-pod{UID.replace('-', '_')}.slice",
    "v2, kubelet with a --cgroup-root": f"nodes/one/kubepods/pod{UID}",
}


@pytest.mark.parametrize("place", NESTED.values(), ids=NESTED)
def test_a_pod_of_a_kubelet_with_its_own_root_is_kept_beside_another_kubelet(
    tmp_path: Path, place: str
) -> None:
    (tmp_path / Path(place).parts[0] / "kubepods").mkdir(parents=True)
    (tmp_path / place).mkdir(parents=True)
    assert Cgroups(tmp_path).kept(frozenset({UID, "other"})) == frozenset({UID})


def test_a_tree_without_pods_is_not_visible(tmp_path: Path) -> None:
    (tmp_path / "memory" / "system.slice").mkdir(parents=True)
    for root in (tmp_path, tmp_path / "nowhere"):
        assert not Cgroups(root).visible
        assert Cgroups(root).kept(frozenset({UID})) is None


@pytest.mark.parametrize("place", [*PLACES.values(), *NESTED.values()], ids=[*PLACES, *NESTED])
def test_groups_that_the_kubelet_creates_later_are_found(tmp_path: Path, place: str) -> None:
    if "kubepods" not in (first := Path(place).parts[0]):
        (tmp_path / first).mkdir()
    cgroups = Cgroups(tmp_path)
    assert cgroups.kept(frozenset({UID})) is None
    (tmp_path / place).mkdir(parents=True)
    assert cgroups.visible
    assert cgroups.kept(frozenset({UID})) == frozenset({UID})


def test_a_folder_that_cannot_be_read_is_an_error_and_not_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / PLACES["v2, cgroupfs"]).mkdir(parents=True)
    monkeypatch.setattr(os, "scandir", mock.Mock(side_effect=PermissionError(13, "Permission denied")))
    assert not Cgroups(tmp_path).visible
    with pytest.raises(KubeletError, match=f"cannot read {tmp_path}: Permission denied"):
        Cgroups(tmp_path).kept(frozenset({UID}))


CONTAINER = "4be25ba5a7d0a6d5d4c9a1f2e3b4c5d6e7f8091a2b3c4d5e6f708192a3b4c5d6"
DASHED, UNDERSCORED = UID, UID.replace("-", "_")
STATIC = "9f8e7d6c5b4a39281706f5e4d3c2b1a0"
RECORDED = {
    "v1, cgroupfs, containerd": f"11:memory:/kubepods/burstable/pod{DASHED}/{CONTAINER}\n0::/\n",
    "v1, systemd, docker": "5:cpu,cpuacct:/kubepods.slice/kubepods-besteffort.slice/"
    f"kubepods-besteffort-pod{UNDERSCORED}.slice/docker-{CONTAINER}.scope\n",
    "v1, systemd, containerd with its own driver": "7:devices:/system.slice/containerd.service/"
    f"kubepods-besteffort-pod{UNDERSCORED}.slice:cri-containerd:{CONTAINER}\n",
    "v1, named hierarchy first": f"1:name=systemd:/user.slice\n3:pids:/kubepods/pod{DASHED}/{CONTAINER}\n",
    "v2, cgroupfs": f"0::/kubepods/besteffort/pod{DASHED}/{CONTAINER}\n",
    "v2, systemd, containerd": "0::/kubepods.slice/kubepods-burstable.slice/"
    f"kubepods-burstable-pod{UNDERSCORED}.slice/cri-containerd-{CONTAINER}.scope\n",
    "v2, systemd, cri-o, guaranteed": "0::/kubepods.slice/"
    f"kubepods-pod{UNDERSCORED}.slice/crio-{CONTAINER}.scope/container\n",
    "v2, groups of the container's own": f"0::/kubepods/pod{DASHED}/{CONTAINER}/docker/{'0' * 64}\n",
    "v2, seen from a sibling": "0::/../../kubepods-burstable-pod"
    f"{UNDERSCORED}.slice/cri-containerd-{CONTAINER}.scope\n",
    "below a group of the node's": f"0::/node-a/kubepods/burstable/pod{DASHED}/{CONTAINER}\n",
}
"""The forms are recorded or documented ones; of these runtimes only containerd runs here."""


@pytest.mark.parametrize("text", RECORDED.values(), ids=RECORDED)
def test_the_home_of_a_process_is_read_in_every_form(text: str) -> None:
    assert parse_container(text) == ContainerRef(UID, CONTAINER)


def test_the_uid_of_a_static_pod_has_no_dashes() -> None:
    assert parse_container(f"0::/kubepods/pod{STATIC}/{CONTAINER}") == ContainerRef(STATIC, CONTAINER)
    slice_ = f"0::/kubepods.slice/kubepods-pod{STATIC}.slice/crio-{CONTAINER}.scope"
    assert parse_container(slice_) == ContainerRef(STATIC, CONTAINER)


def test_a_container_with_an_unknown_cgroup_name_is_found_by_its_pod() -> None:
    assert parse_container(f"0::/kubepods/pod{UID}/strange") == ContainerRef(UID, "")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "garbage",
        "0::/",
        "0::/system.slice/docker.service",
        f"0::/docker/{CONTAINER}",
        f"0::/user.slice/podman-{CONTAINER}.scope",
        "0::/kubepods/podonly/x",
        "0::/machine.slice/libpod-0123.scope",
    ],
)
def test_a_process_in_no_pod_has_no_owner(text: str) -> None:
    assert parse_container(text) is None


def test_a_process_that_has_ended_is_left_out_and_one_in_no_pod_is_not(tmp_path: Path) -> None:
    for pid, text in ((10, RECORDED["v2, cgroupfs"]), (11, "0::/init.scope\n")):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "cgroup").write_text(text)
    assert containers_of([10, 11, 12], tmp_path) == {10: ContainerRef(UID, CONTAINER), 11: None}


def test_a_cgroup_below_a_containers_may_have_any_name(tmp_path: Path) -> None:
    (tmp_path / "10").mkdir()
    group = f"0::/kubepods/pod{UID}/{CONTAINER}/".encode() + b"\xff\n"
    (tmp_path / "10" / "cgroup").write_bytes(group)
    assert containers_of([10], tmp_path) == {10: ContainerRef(UID, CONTAINER)}


def test_this_process_is_in_the_machines_proc() -> None:
    assert os.getpid() in containers_of([os.getpid()], Path("/proc"))
