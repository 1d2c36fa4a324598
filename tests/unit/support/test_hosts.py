import json
from pathlib import Path

import pytest

from testbed.errors import TestbedError
from testbed.hosts import HOSTS, files, needs, repository, wiring
from testbed.hosts.base import DEBIAN, Base
from testbed.hosts.spec import addresses
from testbed.hosts.stubs import Package, all_packages

KERNEL = "6.1.0-1-amd64"


def test_each_host_has_an_address_of_its_own() -> None:
    found = addresses(HOSTS)
    assert list(found) == ["cp-1", "gpu-1", "gpu-2"]
    assert len(set(found.values())) == 3


def test_the_inventory_has_every_host_in_its_groups() -> None:
    document = json.loads(files.inventory(HOSTS, addresses(HOSTS), Path("/there")))["all"]
    assert sorted(document["hosts"]) == ["cp-1", "gpu-1", "gpu-2"]
    groups = {name: sorted(group["hosts"]) for name, group in document["children"].items()}
    gpus = ["gpu-1", "gpu-2"]
    assert groups == {"gpu_nodes": gpus, "kube_control_plane": ["cp-1"], "kube_node": gpus}


def test_connections_of_two_labs_never_share_a_socket() -> None:
    one, other = (files.inventory(HOSTS, addresses(HOSTS), Path(folder)) for folder in ("/one", "/other"))
    assert "ControlPath=/one/" in one
    assert "ControlPath=/other/" in other


def test_gpus_are_at_the_bound_pci_paths() -> None:
    texts = files.of_host(HOSTS[1], "203.0.113.12", "key")
    assert texts["/srv/pci/devices/0000:3b:00.0/device"] == "0x1eb8\n"
    assert texts["/srv/pci/devices/0000:3b:00.0/class"] == "0x030200\n"


def test_a_host_without_gpus_has_an_empty_bus() -> None:
    texts = files.of_host(HOSTS[0], "203.0.113.11", "key")
    assert [path for path in texts if path.startswith("/srv/pci")] == ["/srv/pci/devices/"]


def test_a_host_boots_again_after_a_reboot_only() -> None:
    script = wiring.first_process(
        wiring.HostLayout("a", Path("/a"), "g"), Path("/base"), {"/srv/apt": Path("/apt")}
    )
    assert "while [ $code = 133 ]" in script
    assert "--bind-ro=/apt:/srv/apt" in script


def test_another_recipe_is_another_base() -> None:
    cache = Path("/cache")
    other = Base((*DEBIAN.packages, "dnf"))
    assert DEBIAN.folder("bookworm", cache) != other.folder("bookworm", cache)
    assert DEBIAN.folder("bookworm", cache) == Base(DEBIAN.packages).folder("bookworm", cache)


def test_missing_programs_are_named_with_their_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(TestbedError, match=r"systemd-nspawn \(apt-get install systemd-container\)"):
        needs.look()


def test_every_stub_is_unique_and_describes_itself_as_one() -> None:
    packages = all_packages(KERNEL)
    names = [(package.name, package.version) for package in packages]
    assert len(names) == len(set(names))
    assert all("Stub for tests" in package.control for package in packages)


def test_the_driver_comes_in_versions_below_and_above_the_least() -> None:
    versions = [package.version for package in all_packages(KERNEL) if package.name == "nvidia-driver"]
    assert versions == ["418.67-1", "418.87.01-1", "470.256.02-1", "535.183.01-1", "580.65.06-1"]


def test_dependencies_of_a_stub_are_stubs_or_debian_packages() -> None:
    packages = all_packages(KERNEL)
    known = {package.name for package in packages}
    for package in packages:
        for group in filter(None, package.depends.split(", ")):
            assert any(name.split()[0] in known for name in group.split(" | ")), group


def test_a_package_is_written_as_dpkg_takes_it(tmp_path: Path) -> None:
    package = Package(
        "a", "1", files={"usr/bin/a": "#!/bin/sh\n", "etc/a": "", "var/a/": ""}, conffiles=("/etc/a",)
    )
    repository.write(package, tmp_path / "tree")
    assert (tmp_path / "tree/DEBIAN/conffiles").read_text() == "/etc/a\n"
    assert (tmp_path / "tree/usr/bin/a").stat().st_mode & 0o111
    assert not (tmp_path / "tree/etc/a").stat().st_mode & 0o111
    assert (tmp_path / "tree/var/a").is_dir()
