"""A machine that cannot run a kubelet is told everything that it lacks."""

from pathlib import Path

import pytest

from testbed import cgroups
from testbed.errors import TestbedError
from testbed.kubelets import needs


def test_everything_that_is_missing_is_named_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(needs, "_CNI_FOLDERS", (tmp_path,))
    monkeypatch.setattr(cgroups, "hierarchies", list)
    with pytest.raises(TestbedError) as refused:
        needs.look()
    packages = ("runc", "iptables", "containernetworking-plugins", "busybox-static")
    for part in ("cgroup v1", *(f"(apt-get install {package})" for package in packages)):
        assert part in str(refused.value)


def test_a_busybox_that_needs_libraries_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    busybox = tmp_path / "busybox"
    busybox.write_bytes(b"\x7fELF /lib64/ld-linux-x86-64.so.2")
    busybox.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert needs._busybox() is None
    busybox.write_bytes(b"\x7fELF")
    assert needs._busybox() == busybox


def test_rights_are_read_from_the_kernels_text() -> None:
    assert needs._effective_capabilities("Name:\tx\nCapEff:\t0000000000200000\n") == 1 << 21
