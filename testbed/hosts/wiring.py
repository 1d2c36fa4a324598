"""The commands that create a host from namespaces and mounts, as pure functions.

What belongs here: commands and scripts. What does not: running them (``lab``).

Each host is a systemd-nspawn below the first process of a PID namespace: when that process exits, the kernel
kills the whole host, and removes its mounts with the mount namespace. The bridge of the hosts is in a
separate network namespace.
"""

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from testbed.control_plane.commands import API_ADDRESS
from testbed.hosts.spec import BRIDGE, GATEWAY, MACHINE

_REBOOT: Final = 133
"""Exit status of systemd-nspawn after a reboot of the host."""

_IMAGES: Final = "/var/lib/containerd"
"""The root of a host is an overlay, which cannot be the upper folder of another one."""
_CONTAINERS: Final = ("--capability=CAP_SYSLOG", "--system-call-filter=add_key keyctl bpf")
"""What kubelet and runc need, and systemd-nspawn does not allow by default."""


@dataclass(frozen=True)
class HostLayout:
    """Folder and names of one host on this machine."""

    name: str
    folder: Path
    programs: str
    """Glob pattern of the files that move a process into its cgroups."""
    group: Path | None = None
    """In cgroup v2, its cgroup. At each boot, systemd-nspawn gets a new one in it, which it divides."""

    @property
    def disk(self) -> Path:
        """Differences from the base; the folder survives a reboot."""
        return self.folder / "disk"

    @property
    def script(self) -> Path:
        """Script of the first process."""
        return self.folder / "boot.sh"


def network() -> list[str]:
    """Return the command that creates the network namespace and keeps it."""
    script = f"""\
ip link set lo up
ip link add {BRIDGE} type bridge
ip address add {GATEWAY}/24 dev {BRIDGE}
ip address add {API_ADDRESS}/32 dev {BRIDGE}
ip link set {BRIDGE} up
exec sleep infinity
"""
    return ["/bin/sh", "-ec", f"exec {shlex.join(['unshare', '--net', '/bin/sh', '-ec', script])}"]


def within(namespace: Path, argv: list[str]) -> list[str]:
    """Return the command that runs ``argv`` in the network of the hosts."""
    return ["nsenter", f"--net={namespace}", *argv]


def connect(namespace: Path, pid: int, hosts: Iterable[str]) -> list[list[str]]:
    """Return the commands that connect this machine with the bridge, which process ``pid`` keeps.

    Only the addresses of ``hosts`` are reached there: this machine may have others of that range.
    """
    device = _device(pid)
    return [
        ["ip", "link", "add", device, "type", "veth", "peer", "name", "machine", "netns", str(pid)],
        ["ip", "address", "add", f"{MACHINE}/32", "dev", device],
        ["ip", "link", "set", device, "up"],
        *(["ip", "route", "add", address, "dev", device, "src", MACHINE] for address in hosts),
        within(namespace, ["ip", "link", "set", "machine", "master", BRIDGE, "up"]),
    ]


def disconnect(pid: int) -> list[str]:
    """Return the command that removes the connection; the kernel does so when the last socket is closed."""
    return ["ip", "link", "delete", _device(pid)]


def _device(pid: int) -> str:
    return f"hosts-{pid}"


def route(namespace: Path, subnet: str, address: str) -> list[str]:
    """Return the command that routes ``subnet`` to a host, in the network of the hosts."""
    return within(namespace, ["ip", "route", "add", subnet, "via", address])


def holder(layout: HostLayout, namespace: Path) -> list[str]:
    """Return the command that runs a host; SIGTERM shuts it down."""
    join = f'for procs in {layout.programs}; do [ ! -w "$procs" ] || echo $$ >"$procs"; done'
    unshare = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    command = shlex.join(within(namespace, [*unshare, "--", "/bin/sh", "-e", str(layout.script)]))
    return ["/bin/sh", "-ec", f"{join}; exec {command}"]


def first_process(
    layout: HostLayout, base: Path, binds: Mapping[str, Path], *, containers: bool = False
) -> str:
    """Return the script that mounts the root folder of a host, and boots it again after each reboot."""
    root, work, images = (layout.folder / name for name in ("root", "work", "images"))
    options = f"lowerdir={base},upperdir={layout.disk},workdir={work}"
    nspawn = shlex.join(
        [
            "systemd-nspawn",
            "--quiet",
            "--register=no",
            "--keep-unit",
            f"--directory={root}",
            f"--machine={layout.name}",
            f"--network-bridge={BRIDGE}",
            "--resolv-conf=off",
            "--timezone=off",
            "--link-journal=no",
            "--console=pipe",
            *(f"--bind-ro={here}:{there}" for there, here in binds.items()),
            *([f"--bind={images}:{_IMAGES}", *_CONTAINERS] if containers else []),
            "--boot",
        ]
    )
    return f"""\
mkdir -p {shlex.join(map(str, (root, work, images)))}
mount -t overlay -o {shlex.quote(options)} overlay {shlex.quote(str(root))}
# Hosts of other labs have the same names.
mount -t tmpfs -o mode=755 tmpfs /run
trap : TERM
code={_REBOOT}
while [ $code = {_REBOOT} ]; do
    code=0
    {_apart(layout, nspawn)} || code=$?
done
exit $code
"""


def _apart(layout: HostLayout, command: str) -> str:
    """Return the command that runs systemd-nspawn where it may create cgroups with controllers."""
    if layout.group is None:
        return command
    new = f"group=$(mktemp --directory {shlex.quote(str(layout.group))}/boot.XXXXXX)"
    return shlex.join(["/bin/sh", "-ec", f'{new}; echo $$ >"$group/cgroup.procs"; exec {command}'])
