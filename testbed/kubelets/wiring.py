"""How a node is made of namespaces, mounts and a cable: the commands, as pure functions.

What belongs here: commands and scripts. What does not: running them (``testbed.kubelets.machine``).

A node is one pid namespace whose first process also holds its mount, network, UTS and cgroup
namespaces. When that process ends, the kernel kills all others of the node, and with them go the
mounts, the interfaces and the routes of this machine that lead there.
"""

import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path

from testbed.control_plane.commands import API_ADDRESS
from testbed.kubelets.spec import Place, Subnet

TOPS = ("etc", "usr/local", "var")
"""Folders in which a node reads this machine's files, and writes copies of its own."""
PRIVATE = (
    "/etc/cdi",
    "/etc/cni",
    "/etc/containerd",
    "/etc/nvidia-container-runtime",
    "/usr/local/gpushare",
    "/var/lib/cni",
    "/var/lib/containerd",
    "/var/lib/kubelet",
    "/var/log/containers",
    "/var/log/pods",
)
"""Folders in which a node sees nothing of this machine's."""
SETTINGS: Mapping[str, str] = {
    "kernel/keys/root_maxbytes": "25000000",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
}
"""Kernel settings below /proc/sys that a kubelet wants. A node sees these values as plain files;
the kubelet would change those of this machine."""
BOOT_ID = "kernel/random/boot_id"
TAKEN = "File exists"
"""What ``ip`` says where a route is there already."""


def holder(place: Place) -> list[str]:
    """Return the command that makes the namespaces and runs the node's first process."""
    unshare = "unshare --mount --net --pid --uts --cgroup --fork --kill-child --mount-proc"
    join = f'for procs in /sys/fs/cgroup/*/{place.group}/cgroup.procs; do echo $$ >"$procs"; done'
    return ["/bin/sh", "-ec", f"{join}; exec {unshare} -- /bin/sh -e {shlex.quote(str(script(place)))}"]


def script(place: Place) -> Path:
    """Return the file that a node's first process runs."""
    return place.folder / "boot.sh"


def booted(place: Place) -> Path:
    """Return the file that shows that a node has its mounts."""
    return place.folder / "booted"


def first_process(place: Place, hierarchies: Iterable[Path]) -> str:
    """Return the script of a node's first process: mounts, then reaping orphans until SIGTERM."""
    commands = [
        f"echo {place.name} >/proc/sys/kernel/hostname",
        *(_bind(hierarchy / place.group, str(hierarchy)) for hierarchy in hierarchies),
        *(_overlay(place, top) for top in TOPS),
        *(_bind(place.on_disk(folder), folder) for folder in PRIVATE),
        "mount -t tmpfs -o mode=755 tmpfs /run",
        *(_bind(settings(place) / name, f"/proc/sys/{name}") for name in (*SETTINGS, BOOT_ID)),
        # The kubelet's volumes must reach containers, and theirs the kubelet.
        "mount --make-rshared /",
        f"touch {shlex.quote(str(booted(place)))}",
        "trap 'exit 0' TERM",
        # A shell that waits takes in every process that lost its parent.
        "sleep infinity & wait",
    ]
    return "\n".join(commands)


def settings(place: Place) -> Path:
    """Return the folder of the files that stand for kernel settings."""
    return place.folder / "sys"


def work_folder(place: Place, top: str) -> Path:
    """Return the folder that the kernel needs beside a disk's folder ``top``."""
    return place.folder / f"work-{top.replace('/', '-')}"


def claim(place: Place, subnet: Subnet) -> list[str]:
    """Return the command that takes a subnet; it fails where another node on this machine has it."""
    return _words(f"ip route add {subnet.cidr} via {subnet.node} dev {place.device} onlink")


def cable(place: Place, pid: int) -> list[list[str]]:
    """Return the commands that lay a cable from this machine to the node of process ``pid``."""
    return [
        _words(f"ip link add {place.device} type veth peer name eth0 netns {pid}"),
        _words(f"ip link set {place.device} up"),
        # For traffic between nodes; the rest of this machine routes as before.
        ["/bin/sh", "-ec", f"echo 1 >/proc/sys/net/ipv4/conf/{place.device}/forwarding"],
    ]


def host_address(place: Place, subnet: Subnet) -> list[str]:
    """Return the command that gives this machine its address on the cable."""
    return _words(f"ip address add {subnet.host} peer {subnet.node} dev {place.device}")


def node_addresses(subnet: Subnet) -> str:
    """Return the script, to be run in the node, that gives it its addresses and its way out.

    It forwards from the start: CNI switches that on with the first pod only, and kube-proxy not at all.
    """
    return f"""\
echo 1 >/proc/sys/net/ipv4/ip_forward
ip link set lo up
ip address add {API_ADDRESS} dev lo
ip link set eth0 up
ip address add {subnet.node} peer {subnet.host} dev eth0
ip route add default via {subnet.host}
"""


def unplug(place: Place) -> list[str]:
    """Return the command that removes the cable, and with it the routes."""
    return _words(f"ip link delete {place.device}")


def _overlay(place: Place, top: str) -> str:
    options = f"lowerdir=/{top},upperdir={place.disk / top},workdir={work_folder(place, top)}"
    return f"mount -t overlay -o {shlex.quote(options)} overlay /{top}"


def _bind(source: Path, target: str) -> str:
    return shlex.join(["mount", "--bind", str(source), target])


def _words(command: str) -> list[str]:
    return command.split()
