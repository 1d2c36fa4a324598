"""Nodes with their own kernel; tests/integration/test_cgroup_v2.py runs one."""

from pathlib import Path

import pytest

from devkit.errors import DevkitError
from testbed.kubelets import files
from testbed.kubelets.spec import KubeletSpec, Subnet
from testbed.uml import needs, wiring
from testbed.uml.wiring import Kernel

KERNEL = Kernel(Path("/cache/user-mode-linux/usr/bin/linux.uml"))


def test_such_a_node_cannot_change_files_of_this_machine() -> None:
    script = wiring.prepare(KERNEL, Subnet(7), Path("/cache"))
    mounts = [line for line in script.splitlines() if "mount -t hostfs" in line]
    assert len(mounts) == 3
    assert all(" -o ro," in line for line in mounts)


def test_the_modules_are_those_of_the_kernel() -> None:
    assert KERNEL.modules == Path("/cache/user-mode-linux/usr/lib/uml/modules")


def test_systemd_passes_the_words_of_a_command_unchanged() -> None:
    text = wiring.unit(["/bin/p", "--x=$HOME", "50%", 'a "b"', "c\\d"], {"K": "v $w"}, ["Type=exec"])
    assert 'ExecStart="/bin/p" "--x=$$HOME" "50%%" "a \\"b\\"" "c\\\\d"\n' in text
    assert 'Environment="K=v $w"\nType=exec\n' in text


@pytest.mark.parametrize("systemd", [True, False])
def test_kubelet_and_containerd_have_the_same_cgroup_driver(*, systemd: bool) -> None:
    spec = KubeletSpec("a")
    found = files.texts(spec, Subnet(7), {}, Path("/cni"), Path("/ca"), systemd=systemd)
    assert (
        f'"cgroupDriver": "{"systemd" if systemd else "cgroupfs"}"' in found[files.KUBELET_CONFIG]
    ) is True
    assert (f"SystemdCgroup = {'true' if systemd else 'false'}\n" in found[files.CONTAINERD_CONFIG]) is True
    assert ('"failCgroupV1": true' in found[files.KUBELET_CONFIG]) is systemd


def test_everything_that_is_missing_is_reported_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("GPUSHARE_CACHE", str(tmp_path))
    monkeypatch.setattr(needs, "_can_trace", lambda: False)
    with pytest.raises(DevkitError, match="a node with its own kernel cannot run here") as error:
        needs.look()
    for text in ("ptrace", "mkfs.ext4 (apt-get install e2fsprogs)", "user-mode Linux (.ci/packages all)"):
        assert text in str(error.value)
