"""Nodes with real kubelets: errors, isolation from this machine, and the choice of bundles."""

import json
import os
from pathlib import Path

import pytest

from devkit.errors import DevkitError
from gpushare.errors import ConfigError
from testbed.kubelets import needs, wiring
from testbed.kubelets.bundles import spec_of
from testbed.kubelets.programs import kube_proxy_argv
from testbed.kubelets.spec import KubeletLayout, KubeletSpec

DATA = Path("/data")
A, B = Path("/beds/a"), Path("/beds/b")


@pytest.mark.parametrize("name", ["", "Upper", "a_b", "-a", "a" * 41])
def test_an_invalid_name_is_rejected(name: str) -> None:
    with pytest.raises(ConfigError, match="node name"):
        KubeletSpec(name)


@pytest.mark.parametrize("path", ["/run/x", "/var/run/cdi/x", "/root/x", "etc/x", "/etc/../root/x"])
def test_a_file_outside_the_disk_of_the_node_is_rejected(path: str) -> None:
    with pytest.raises(ConfigError, match="not on the node's disk"):
        KubeletSpec("a", files={path: ""})


def test_nodes_of_the_same_name_in_two_testbeds_share_nothing() -> None:
    ours, theirs = KubeletLayout("gpu-a", A, DATA / "a"), KubeletLayout("gpu-a", B, DATA / "b")
    assert ours.group != theirs.group
    assert ours.device != theirs.device
    assert ours.folder != theirs.folder


def test_the_kernel_allows_the_name_of_the_network_device() -> None:
    assert len(KubeletLayout("a" * 40, A, DATA).device) <= 15


def test_a_kubelet_never_changes_kernel_settings_of_the_machine() -> None:
    lines = wiring.first_process(KubeletLayout("gpu-a", A, DATA), []).splitlines()
    mounted = next(number for number, line in enumerate(lines) if line.startswith("touch "))
    for name in (*wiring.SETTINGS, wiring.BOOT_ID):
        assert any(line.endswith(f" /proc/sys/{name}") for line in lines[:mounted])


def test_a_node_cannot_write_usr_and_sees_the_mounts_below_it() -> None:
    lines = wiring.first_process(KubeletLayout("gpu-a", A, DATA), []).splitlines()
    seen = lines.index("mount --rbind /usr /usr")
    assert lines[seen + 1] == "mount -o remount,bind,ro /usr"
    assert not [line for line in lines[seen + 2 :] if line.endswith("/usr") or " /usr/" in line]


def test_a_container_with_a_user_namespace_finds_a_proc_that_hides_nothing() -> None:
    lines = wiring.first_process(KubeletLayout("gpu-a", A, DATA), []).splitlines()
    mounted = lines.index(f"mount -t proc proc {wiring.PLAIN_PROC}")
    assert not [line for line in lines[mounted + 1 :] if wiring.PLAIN_PROC in line]
    assert mounted > lines.index("mount -t tmpfs -o mode=755 tmpfs /run")


def test_kube_proxy_never_changes_settings_that_all_nodes_share() -> None:
    argv = kube_proxy_argv(Path("/bin/kube-proxy"), "gpu-a", "198.19.7.2", Path("/bed/kubeconfig"))
    settings = [flag for flag in argv if flag.startswith(("--conntrack", "--oom"))]
    assert settings
    assert all(flag.endswith("=0") for flag in settings)


def bundle(folder: Path, name: str, at: int) -> None:
    fields = {"sandbox-namespace": "default", "sandbox-name": "p", "container-name": "main"}
    annotations = {f"io.kubernetes.cri.{key}": value for key, value in fields.items()}
    file = folder / name / "config.json"
    file.parent.mkdir()
    file.write_text(json.dumps({"id": name, "annotations": annotations}))
    os.utime(file, (at, at))


def test_the_newest_bundle_of_a_restarted_container_counts(tmp_path: Path) -> None:
    bundle(tmp_path, "b-old", at=1)
    bundle(tmp_path, "a-new", at=2)
    spec = spec_of(tmp_path, "default", "p", "main")
    assert spec is not None
    assert spec["id"] == "a-new"


def test_an_incomplete_bundle_is_ignored(tmp_path: Path) -> None:
    for name, text in (("half", '{"annot'), ("plain", "{}")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(text)
    assert spec_of(tmp_path, "default", "p", "main") is None


def test_all_missing_requirements_are_reported_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("GPUSHARE_CACHE", str(tmp_path))
    with pytest.raises(DevkitError) as raised:
        needs.look(cgroup_root=tmp_path, cni_folders=[tmp_path])
    packages = ("pkg-config", "iptables", "containernetworking-plugins")
    for part in (
        f"cgroups in {tmp_path} (mount ",
        "a static busybox (.ci/packages demo)",
        *(f"(apt-get install {package})" for package in packages),
    ):
        assert part in str(raised.value)


def test_capabilities_are_parsed() -> None:
    assert needs._effective_capabilities("Name:\tx\nCapEff:\t0000000000200000\n") == 1 << 21
