"""The commands that run a machine with its own kernel, and the scripts at its boot, as pure functions.

What belongs here: commands and scripts. What does not: running them (``machine``).

User-mode Linux is a kernel that is a process: it runs below the first process of a PID namespace, so that the
whole machine ends with that process. A bridge in a network namespace connects its TAP device with a veth
pair to this machine.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from devkit.ports import LOOPBACK
from testbed.control_plane.commands import API_ADDRESS
from testbed.kubelets import forward
from testbed.kubelets.spec import KubeletLayout, Subnet
from testbed.uml import control, image

CONTROL_PORT: Final = 8
"""TCP port of ``control`` on the machine."""
KEY: Final = "key"
"""File in the boot folder with what a client of ``control`` must know."""
TREE: Final = "/machine"
"""The files of this machine on that one: readable, and writes stay there."""
SHARED: Final = ("/proc", "/sys", "/dev", "/run", "/srv", "/var/lib/gpushare", "/var/lib/kubelet")
"""Folders of that machine which programs in ``TREE`` see instead of those of this machine."""
_KEY_THERE: Final = "/run/machine-key"
_ROOT: Final = "/proc/1/root"
"""The root folder of the machine, seen from ``TREE``."""
_INIT: Final = "/run/machine-init.json"
_FILES: Final = "/hostfs"
_BRIDGE: Final = "br0"
_TAP: Final = "tap0"
_DEVICE: Final = "vec0"
_MEMORY_MIB: Final = 2048
_MHZ: Final = 2000


@dataclass(frozen=True)
class Kernel:
    """The kernel as a program, and the folder of its modules."""

    program: Path

    @property
    def modules(self) -> Path:
        """The folder of the modules, as packaged."""
        return self.program.parents[1] / "lib" / "uml" / "modules"


def disk(layout: KubeletLayout) -> Path:
    """Return the file with the changes of the disk, which survives a power cut."""
    return layout.folder / "disk"


def boot_folder(layout: KubeletLayout) -> Path:
    """Return the folder that the machine reads at boot."""
    return layout.folder / "boot"


def script(layout: KubeletLayout) -> Path:
    """Return the script of the first process."""
    return layout.folder / "first.sh"


def connected(layout: KubeletLayout) -> Path:
    """Return the file that exists when the network and the boot folder are complete."""
    return layout.folder / "connected"


def first_process(layout: KubeletLayout, kernel: Kernel, base: Path) -> str:
    """Return the script that connects the network, then runs the kernel until SIGTERM."""
    command = shlex.join(
        [
            str(kernel.program),
            f"mem={_MEMORY_MIB}M",
            f"umid={layout.name}",
            f"uml_dir={layout.folder / 'uml'}/",
            f"ubda={disk(layout)},{base}",
            "root=/dev/ubda",
            "rw",
            f"vec0:transport=tap,ifname={_TAP},depth=128,gro=1",
            # The console is the log of this process.
            "con=null",
            "con0=fd:0,fd:1",
            "ssl=null",
            "console=tty0",
            "systemd.unified_cgroup_hierarchy=1",
            "systemd.show_status=0",
            "quiet",
            "loglevel=4",
            f"{image.FOLDER}={boot_folder(layout)}",
        ]
    )
    return f"""\
ip link set lo up
ip link add {_BRIDGE} type bridge
ip tuntap add {_TAP} mode tap
ip link set {_TAP} master {_BRIDGE} up
ip address add {API_ADDRESS}/32 dev {_BRIDGE}
ip link set {_BRIDGE} up
trap 'exit 0' TERM
while [ ! -e {shlex.quote(str(connected(layout)))} ]; do sleep 0.05; done
# The memory of the machine is a file there.
export TMPDIR=/dev/shm
{command} </dev/null &
wait
"""


def holder(layout: KubeletLayout) -> list[str]:
    """Return the command that runs the first process in new namespaces."""
    unshare = "unshare --net --pid --fork --kill-child --mount-proc"
    return ["/bin/sh", "-ec", f"exec {unshare} -- /bin/sh -e {shlex.quote(str(script(layout)))}"]


def connect(pid: int, subnet: Subnet) -> list[str]:
    """Return the command that connects the veth pair with the bridge, in the namespace of process ``pid``."""
    script = f"ip link set eth0 master {_BRIDGE} up; ip route add {subnet.node}/32 dev {_BRIDGE}"
    return ["nsenter", f"--net=/proc/{pid}/ns/net", "/bin/sh", "-ec", script]


def prepare(kernel: Kernel, subnet: Subnet, cache: Path) -> str:
    """Return the script at each boot: modules, network, and the files of this machine.

    The cache, which has the programs and the folders of testbeds, has the same path on both machines.
    """
    shared = shlex.quote(str(cache))
    binds = "\n".join(f"mkdir -p {each} {TREE}{each}; mount --rbind {each} {TREE}{each}" for each in SHARED)
    return f"""\
mount -t hostfs -o ro,{shlex.quote(str(kernel.modules))} none /lib/modules
modprobe -a overlay veth
sysctl --quiet net.ipv4.ip_forward=1
ip link set lo up
ip link set {_DEVICE} up
ip address add {subnet.node} peer {subnet.host} dev {_DEVICE}
ip route add default via {subnet.host}
ip route add {API_ADDRESS} dev {_DEVICE}
# The kubelet requires a clock frequency, and this kernel states none.
sed '/^bogomips/i cpu MHz\\t\\t: {_MHZ}.000' /proc/cpuinfo >/run/cpuinfo
mount --bind /run/cpuinfo /proc/cpuinfo
mount -t hostfs -o ro,/ none {_FILES}
mkdir -p {shared}
mount -t hostfs -o ro,{shared} none {shared}
mount -t tmpfs tmpfs /writes
mkdir /writes/upper /writes/work
mount -t overlay -o lowerdir={_FILES},upperdir=/writes/upper,workdir=/writes/work overlay {TREE}
{binds}
echo '{{"pid": 1}}' >{_INIT}
mkdir -p {TREE}{shared}
mount --bind {shared} {TREE}{shared}
"""


def serve_control(python: str, subnet: Subnet) -> str:
    """Return the script that runs ``control``."""
    argv = [python, "-I", "-S", control.__file__, subnet.node, str(CONTROL_PORT), _KEY_THERE, _ROOT]
    return f"install -m 600 {image.INSIDE}/{KEY} {_KEY_THERE}\nexec {shlex.join(in_tree(argv))}\n"


def api_forwarder(python: str, port: int) -> list[str]:
    """Return the command on that machine that forwards its loopback to the API server."""
    return in_tree([python, "-I", "-S", forward.__file__, _INIT, str(port), API_ADDRESS, LOOPBACK])


def there(path: Path) -> str:
    """Return the path on that machine of a file of this machine, outside ``TREE``."""
    return f"{_FILES}{path}"


def in_tree(argv: Sequence[str]) -> list[str]:
    """Return the command that runs a program of this machine on that one."""
    return ["/usr/sbin/chroot", TREE, *argv]


def unit(
    argv: Sequence[str], env: Mapping[str, str] = MappingProxyType({}), lines: Sequence[str] = ()
) -> str:
    """Return a unit of systemd that runs a command at each boot; ``lines`` are added to its section."""
    # In a command, systemd replaces variables too.
    command = " ".join(_quoted(word).replace("$", "$$") for word in argv)
    settings = [f"Environment={_quoted(f'{key}={value}')}" for key, value in env.items()]
    body = "\n".join([f"ExecStart={command}", *settings, *lines])
    return f"""\
[Unit]
Requires=machine-control.service
After=machine-control.service
[Service]
{body}
[Install]
WantedBy=multi-user.target
"""


def _quoted(word: str) -> str:
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'
