"""The commands that make a node: what is private, and in which order."""

import subprocess
from pathlib import Path

from testbed.control_plane import commands
from testbed.control_plane.layout import Layout, Ports
from testbed.kubelets import wiring
from testbed.kubelets.spec import Place, Subnet

PLACE = Place("gpu-a", Path("/beds/a"), Path("/data dir"))
SUBNET = Subnet(7)
HIERARCHY = Path("/sys/fs/cgroup/memory")


def lines() -> list[str]:
    return wiring.first_process(PLACE, [HIERARCHY]).splitlines()


def position(part: str) -> int:
    return next(number for number, line in enumerate(lines()) if part in line)


def test_the_scripts_are_ones_that_the_shell_can_read() -> None:
    for script in ("\n".join(lines()), wiring.holder(PLACE)[2], wiring.node_addresses(SUBNET)):
        subprocess.run(["/bin/sh", "-n"], input=script.encode(), check=True)


def test_private_folders_cover_what_is_copied_on_write() -> None:
    tops = tuple(f"/{top}/" for top in wiring.TOPS)
    assert all(folder.startswith(tops) for folder in wiring.PRIVATE)
    first = position("--bind '/data dir/nodes/gpu-a/disk/etc/cdi' /etc/cdi")
    assert first > position("lowerdir=/etc")
    assert first > position("lowerdir=/var")


def test_a_node_sees_its_own_control_group_as_the_top() -> None:
    assert f"mount --bind {HIERARCHY}/{PLACE.group} {HIERARCHY}" in lines()


def test_kernel_settings_and_boot_id_are_the_nodes_own() -> None:
    for name in (*wiring.SETTINGS, wiring.BOOT_ID):
        assert position(f"/proc/sys/{name}") < position("touch")


def test_the_mark_comes_after_the_last_mount() -> None:
    assert position("touch") > max(number for number, line in enumerate(lines()) if "mount " in line)


def test_a_node_has_the_address_at_which_the_api_server_is_advertised() -> None:
    api = Layout(Path("/bed"), Path("/data"), Ports(1, 2, 3, 4, 5, 6))
    (advertised,) = [
        flag
        for flag in commands.kube_apiserver(api, Path("/bin/it"))
        if flag.startswith("--advertise-address=")
    ]
    assert advertised.partition("=")[2] in wiring.node_addresses(SUBNET)


def test_every_command_names_the_nodes_own_cable() -> None:
    commands = [*wiring.cable(PLACE, 42), wiring.claim(PLACE, SUBNET), wiring.host_address(PLACE, SUBNET)]
    assert all(PLACE.device in " ".join(command) for command in [*commands, wiring.unplug(PLACE)])
