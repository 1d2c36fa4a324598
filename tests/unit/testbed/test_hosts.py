"""Hosts with systemd; tests/integration/test_hosts.py runs them."""

from pathlib import Path

import pytest

from devkit.errors import DevkitError
from testbed.hosts import HOSTS, files, needs, wiring
from testbed.hosts.base import DEBIAN, HostBase, archives
from testbed.hosts.files import CONTAINERS_UNIT
from testbed.hosts.spec import HostSpec, addresses
from testbed.hosts.stubs.runtime import toolkit
from testbed.hosts.wiring import HostLayout


def test_connections_of_two_labs_do_not_share_a_socket() -> None:
    one, other = (files.inventory(HOSTS, addresses(HOSTS), Path(folder)) for folder in ("/one", "/other"))
    assert "ControlPath=/one/" in one
    assert "ControlPath=/other/" in other


def test_each_recipe_has_its_own_base() -> None:
    cache = Path("/cache")
    other = HostBase((*DEBIAN.packages, "dnf"))
    assert DEBIAN.folder("bookworm", cache) != other.folder("bookworm", cache)
    assert DEBIAN.folder("bookworm", cache) == HostBase(DEBIAN.packages).folder("bookworm", cache)


BOOKWORM = "ID=debian\nVERSION_CODENAME=bookworm\n"


def test_archives_of_another_release_are_those_of_this_machine() -> None:
    listed = "URIs: http://mirror/debian\nSuites: bookworm bookworm-updates\n"
    assert archives(listed, BOOKWORM, "trixie") == listed.replace("bookworm", "trixie")
    assert archives("Suites: stable\n", BOOKWORM, "bookworm") == "Suites: stable\n"


@pytest.mark.parametrize(
    ("listed", "release"),
    [
        ("Suites: stable\n", BOOKWORM),
        ("URIs: http://mirror/ubuntu\nSuites: noble\n", "ID=ubuntu\nVERSION_CODENAME=noble\n"),
    ],
)
def test_archives_without_debian_do_not_give_another_release(listed: str, release: str) -> None:
    with pytest.raises(DevkitError, match="hosts of trixie need archives of Debian"):
        archives(listed, release, "trixie")


def test_a_missing_program_is_reported_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(DevkitError, match=r"systemd-nspawn \(apt-get install systemd-container\)"):
        needs.look()


@pytest.mark.parametrize("containers", [True, False])
def test_only_hosts_with_containers_have_what_they_need(*, containers: bool) -> None:
    texts = files.of_host(HostSpec("a", (), containers=containers), "203.0.113.11", "key")
    script = wiring.first_process(
        HostLayout("a", Path("/lab/a"), "/cgroups/*/a/cgroup.procs"), Path("/base"), {}, containers=containers
    )
    assert (f"/etc/systemd/system/{CONTAINERS_UNIT}" in texts) is containers
    assert ("--bind=/lab/a/images:/var/lib/containerd" in script) is containers


def test_on_cgroup_v2_each_boot_of_a_host_has_a_new_cgroup() -> None:
    layout = HostLayout("a", Path("/lab/a"), "/cgroups/a/programs/cgroup.procs", Path("/cgroups/a"))
    lines = wiring.first_process(layout, Path("/base"), {}).splitlines()
    (line,) = [each.strip() for each in lines if "systemd-nspawn --quiet" in each]
    new = "group=$(mktemp --directory /cgroups/a/boot.XXXXXX)"
    assert line.startswith(f'/bin/sh -ec \'{new}; echo $$ >"$group/cgroup.procs"; exec systemd-nspawn ')


def test_a_connected_machine_reaches_the_hosts_at_their_own_addresses_only() -> None:
    commands = wiring.connect(Path("/proc/7/ns/net"), 7, ["203.0.113.11", "203.0.113.12"])
    routes = [words[3] for words in commands if words[1:3] == ["route", "add"]]
    assert routes == ["203.0.113.11", "203.0.113.12"]
    assert not [word for words in commands for word in words if word.endswith("/24")]


def test_programs_of_the_toolkit_can_be_replaced() -> None:
    found = [
        each.files.get("usr/bin/nvidia-ctk", "") for each in toolkit("1.2.3-1", {"usr/bin/nvidia-ctk": "x"})
    ]
    assert "".join(found) == "x"
