"""The commands that create a node from namespaces, mounts and a veth pair, as pure functions.

What belongs here: commands and scripts. What does not: running them (``testbed.kubelets.machine``).

A node is one PID namespace; its first process also has its mount, network, UTS and cgroup namespaces. When
that process exits, the kernel kills all others of the node, and removes the mounts, the interfaces, and the
routes to the node on this machine. A node with the PID namespace of this machine ends with its cgroup.
"""

import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path

from testbed.control_plane.commands import API_ADDRESS
from testbed.kubelets.spec import KubeletLayout, Subnet

TOPS = ("etc", "var")
"""Folders in which a node reads the files of this machine, and writes copies."""
READ_ONLY = "/usr"
"""A folder of this machine that a node cannot write, as on Bottlerocket, Talos and Flatcar."""
PRIVATE = (
    "/etc/cdi",
    "/etc/cni",
    "/etc/containerd",
    "/etc/nvidia-container-runtime",
    "/var/lib/cni",
    "/var/lib/containerd",
    "/var/lib/gpushare",
    "/var/lib/kubelet",
    "/var/log/containers",
    "/var/log/pods",
)
"""Folders in which a node sees no files of this machine."""
SETTINGS: Mapping[str, str] = {
    "kernel/keys/root_maxbytes": "25000000",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
}
"""Kernel settings in /proc/sys that a kubelet requires. A node sees plain files with these values, because
the kubelet would change the settings of this machine."""
BOOT_ID = "kernel/random/boot_id"
PLAIN_PROC = "/run/proc"
"""A /proc without mounts on its files. On a node without one, no container with a user namespace starts: the
kernel lets it mount its own only if that shows nothing that the node's hides."""
TAKEN = "File exists"
"""Error of ``ip`` for a route that exists."""


def holder(layout: KubeletLayout, top: str, programs: str, *, host_pid: bool = False) -> list[str]:
    """Return the command that creates the namespaces and runs the first process of the node.

    ``top`` and ``programs`` are those of its cgroup (``testbed.cgroups``).
    """
    pids = "" if host_pid else "--pid --mount-proc"
    unshare = f"unshare --mount --net --uts --fork --kill-child {pids}"
    run = f"{_join(programs)}; exec {unshare} -- /bin/sh -e {shlex.quote(str(script(layout)))}"
    # The cgroup at this moment is the root of the namespace.
    return ["/bin/sh", "-ec", f"{_join(top)}; exec unshare --cgroup -- /bin/sh -ec {shlex.quote(run)}"]


def script(layout: KubeletLayout) -> Path:
    """Return the script of the first process of a node."""
    return layout.folder / "boot.sh"


def booted(layout: KubeletLayout) -> Path:
    """Return the file that exists when the mounts of a node are complete."""
    return layout.folder / "booted"


def first_process(layout: KubeletLayout, hierarchies: Iterable[Path]) -> str:
    """Return the script of the first process: it mounts, then reaps orphans until SIGTERM."""
    commands = [
        f"echo {layout.name} >/proc/sys/kernel/hostname",
        *(_bind(hierarchy / layout.group, str(hierarchy)) for hierarchy in hierarchies),
        # With the mounts below it, such as a driver's folder.
        f"mount --rbind {READ_ONLY} {READ_ONLY}",
        f"mount -o remount,bind,ro {READ_ONLY}",
        *(_overlay(layout, top) for top in TOPS),
        *(_bind(layout.on_disk(folder), folder) for folder in PRIVATE),
        "mount -t tmpfs -o mode=755 tmpfs /run",
        f"mkdir {PLAIN_PROC}",
        f"mount -t proc proc {PLAIN_PROC}",
        *(_bind(settings(layout) / name, f"/proc/sys/{name}") for name in (*SETTINGS, BOOT_ID)),
        _bind(processors(layout), "/proc/cpuinfo"),
        # Mounts of the kubelet must propagate to containers, and back.
        "mount --make-rshared /",
        f"touch {shlex.quote(str(booted(layout)))}",
        "trap 'exit 0' TERM",
        # A waiting shell reaps orphaned processes.
        "sleep infinity & wait",
    ]
    return "\n".join(commands)


def settings(layout: KubeletLayout) -> Path:
    """Return the folder of the files that replace kernel settings."""
    return layout.folder / "sys"


def processors(layout: KubeletLayout) -> Path:
    """Return the file with the processors of this machine, as programs here see them.

    A kernel without a clock frequency (``testbed.uml``) has it in a mount, which the /proc of a node hides.
    """
    return layout.folder / "cpuinfo"


def work_folder(layout: KubeletLayout, top: str) -> Path:
    """Return the work folder of the overlay mount of ``top``."""
    return layout.folder / f"work-{top.replace('/', '-')}"


def claim(layout: KubeletLayout, subnet: Subnet) -> list[str]:
    """Return the command that takes a subnet; it fails if another node on this machine has it."""
    return _words(f"ip route add {subnet.cidr} via {subnet.node} dev {layout.device} onlink")


def veth_pair(layout: KubeletLayout, pid: int) -> list[list[str]]:
    """Return the commands that connect this machine and the node of process ``pid`` by a veth pair."""
    return [
        _words(f"ip link add {layout.device} type veth peer name eth0 netns {pid}"),
        _words(f"ip link set {layout.device} up"),
        # For traffic between nodes; other routing of this machine does not change.
        ["/bin/sh", "-ec", f"echo 1 >/proc/sys/net/ipv4/conf/{layout.device}/forwarding"],
    ]


def host_address(layout: KubeletLayout, subnet: Subnet) -> list[str]:
    """Return the command that sets the address of this machine on the veth pair."""
    return _words(f"ip address add {subnet.host} peer {subnet.node} dev {layout.device}")


def node_addresses(subnet: Subnet) -> str:
    """Return the script, for the node, that sets its addresses and its default route.

    It enables forwarding: CNI does so only with the first pod, and kube-proxy never.
    """
    return f"""\
echo 1 >/proc/sys/net/ipv4/ip_forward
ip link set lo up
ip address add {API_ADDRESS} dev lo
ip link set eth0 up
ip address add {subnet.node} peer {subnet.host} dev eth0
ip route add default via {subnet.host}
"""


def unplug(layout: KubeletLayout) -> list[str]:
    """Return the command that removes the veth pair with its routes."""
    return _words(f"ip link delete {layout.device}")


def _join(files: str) -> str:
    return f'for procs in {files}; do echo $$ >"$procs"; done'


def _overlay(layout: KubeletLayout, top: str) -> str:
    options = f"lowerdir=/{top},upperdir={layout.disk / top},workdir={work_folder(layout, top)}"
    return f"mount -t overlay -o {shlex.quote(options)} overlay /{top}"


def _bind(source: Path, target: str) -> str:
    return shlex.join(["mount", "--bind", str(source), target])


def _words(command: str) -> list[str]:
    return command.split()
