"""A machine that cannot run a kubelet is told everything that it lacks."""

from pathlib import Path

import pytest

from testbed.errors import TestbedError
from testbed.kubelets import needs
from testbed.system import cgroups


def test_everything_that_is_missing_is_named_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("GPUSHARE_CACHE", str(tmp_path))
    monkeypatch.setattr(needs, "_CNI_FOLDERS", (tmp_path,))
    monkeypatch.setattr(cgroups, "hierarchies", list)
    with pytest.raises(TestbedError) as refused:
        needs.look()
    packages = ("runc", "iptables", "containernetworking-plugins")
    for part in (
        "cgroup v1",
        "a static busybox (.ci/packages demo)",
        *(f"(apt-get install {package})" for package in packages),
    ):
        assert part in str(refused.value)


def test_rights_are_read_from_the_kernels_text() -> None:
    assert needs._effective_capabilities("Name:\tx\nCapEff:\t0000000000200000\n") == 1 << 21
