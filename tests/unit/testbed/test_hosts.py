"""Hosts with systemd; tests/integration/test_hosts.py runs them."""

from pathlib import Path

import pytest

from testbed.errors import TestbedError
from testbed.hosts import HOSTS, files, needs
from testbed.hosts.base import DEBIAN, Base
from testbed.hosts.spec import addresses


def test_connections_of_two_labs_do_not_share_a_socket() -> None:
    one, other = (files.inventory(HOSTS, addresses(HOSTS), Path(folder)) for folder in ("/one", "/other"))
    assert "ControlPath=/one/" in one
    assert "ControlPath=/other/" in other


def test_each_recipe_has_its_own_base() -> None:
    cache = Path("/cache")
    other = Base((*DEBIAN.packages, "dnf"))
    assert DEBIAN.folder("bookworm", cache) != other.folder("bookworm", cache)
    assert DEBIAN.folder("bookworm", cache) == Base(DEBIAN.packages).folder("bookworm", cache)


def test_a_missing_program_is_reported_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(TestbedError, match=r"systemd-nspawn \(apt-get install systemd-container\)"):
        needs.look()
