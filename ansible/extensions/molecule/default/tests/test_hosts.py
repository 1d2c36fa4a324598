"""The hosts have systemd and everything that the roles need."""

from collections.abc import Callable

from testinfra.host import Host

testinfra_hosts = ["ansible://all"]


def test_there_are_a_control_plane_and_two_gpu_nodes(names_of: Callable[[str], list[str]]) -> None:
    assert names_of("all") == ["cp-1", "gpu-1", "gpu-2"]
    assert names_of("kube_control_plane") == ["cp-1"]
    assert names_of("gpu_nodes") == names_of("kube_node") == ["gpu-1", "gpu-2"]


def test_systemd_is_the_first_process_and_running(host: Host) -> None:
    assert host.file("/proc/1/comm").content_string == "systemd\n"
    assert host.check_output("systemctl is-system-running") == "running"


def test_each_has_a_name_and_a_machine_id(host: Host, names_of: Callable[[str], list[str]]) -> None:
    assert host.check_output("hostname") in names_of("all")
    assert len(host.file("/etc/machine-id").content_string) == 33


def test_gpus_are_on_the_pci_bus_of_gpu_nodes_only(host: Host) -> None:
    expected = {"gpu-1": ["1eb8"], "gpu-2": ["1db6", "1db6"]}
    found = host.check_output("lspci -nn -d 10de:").splitlines()
    devices = [line.rpartition("[10de:")[2].partition("]")[0] for line in found]
    assert devices == expected.get(host.check_output("hostname"), [])


def test_the_repository_is_signed_and_has_the_driver_in_several_versions(host: Host) -> None:
    listed = "deb [signed-by=/srv/apt/gpushare-test.asc] file:/srv/apt /"
    host.check_output(f"echo '{listed}' >/tmp/stubs.list")
    options = (
        "-o Dir::Etc::SourceList=/tmp/stubs.list -o Dir::Etc::SourceParts=- -o Dir::State::Lists=/tmp/lists"
    )
    host.check_output(f"mkdir -p /tmp/lists/partial && apt-get {options} update --error-on=any")
    known = host.check_output(f"apt-cache {options} madison nvidia-kernel-dkms")
    assert known.count("nvidia-kernel-dkms") >= 5
    host.check_output("rm -r /tmp/lists /tmp/stubs.list")
