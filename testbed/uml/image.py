"""The disk of a machine with its own kernel: a small Debian with systemd in an ext4 image.

What belongs here: its content, and creating it once. What does not: files that differ between machines
(``wiring``), and the kernel, which ``.ci/packages`` unpacks.
"""

import hashlib
from pathlib import Path
from typing import Final

from devkit.locks import create_once
from devkit.process import run_text
from testbed.hosts import base
from testbed.hosts.base import HostBase

PREPARE: Final = "prepare.sh"
"""Script in the folder of the machine that runs at each boot."""
CONTROL: Final = "control.sh"
"""Script in that folder that runs while the machine is on."""
FOLDER: Final = "MACHINE_FOLDER"
"""Variable of the kernel's command line: that folder, on the machine that runs the kernel."""
INSIDE: Final = "/mnt"
"""Where the machine sees that folder."""
_MAKE_S: Final = 300.0
_SIZE: Final = "2G"
_UNNEEDED: Final = (
    "modprobe@.service",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
    "getty@tty1.service",
    "serial-getty@ttyS0.service",
    "systemd-binfmt.service",
    "systemd-firstboot.service",
    "systemd-journal-flush.service",
    "systemd-logind.service",
    "systemd-network-generator.service",
    "systemd-pstore.service",
    "systemd-random-seed.service",
    "systemd-sysusers.service",
    "systemd-update-utmp.service",
    "systemd-update-utmp-runlevel.service",
    "systemd-user-sessions.service",
)
_UNITS: Final = {
    "machine-prepare.service": f"""\
[Unit]
DefaultDependencies=no
After=local-fs.target
Before=sysinit.target
[Service]
Type=oneshot
RemainAfterExit=yes
PassEnvironment={FOLDER}
ExecStart=/bin/mount -t hostfs -o ro,${{{FOLDER}}} none {INSIDE}
ExecStart=/bin/sh -e {INSIDE}/{PREPARE}
StandardOutput=journal+console
StandardError=journal+console
[Install]
WantedBy=sysinit.target
""",
    "machine-control.service": f"""\
[Unit]
DefaultDependencies=no
Requires=machine-prepare.service
After=machine-prepare.service
[Service]
ExecStart=/bin/sh -e {INSIDE}/{CONTROL}
KillMode=process
StandardOutput=journal+console
StandardError=journal+console
[Install]
WantedBy=sysinit.target
""",
}
_FOLDERS: Final = ("/hostfs", "/machine", "/writes", "/lib/modules", "/var/lib/gpushare")


def _file(path: str, text: str) -> str:
    return f"cat >\"$1\"{path} <<'END'\n{text}END"


BASE: Final = HostBase(
    ("containernetworking-plugins", "dbus", "iproute2", "kmod", "procps", "runc", "systemd", "systemd-sysv"),
    (
        *(_file(f"/etc/systemd/system/{name}", text) for name, text in _UNITS.items()),
        f'chroot "$1" systemctl --quiet enable {" ".join(_UNITS)}',
        f'chroot "$1" systemctl --quiet mask {" ".join(_UNNEEDED)}',
        'mkdir -p "$1"/etc/systemd/journald.conf.d',
        _file("/etc/systemd/journald.conf.d/machine.conf", "[Journal]\nStorage=volatile\n"),
        f'for each in {" ".join(_FOLDERS)}; do mkdir -p "$1$each"; done',
        ': >"$1"/etc/fstab',
    ),
    services=("dbus",),
)


async def ensure() -> Path:
    """Return the image, which no machine may write; create it first if it is not in the cache (a minute)."""
    root = (await base.ensure([BASE]))[BASE]
    digest = hashlib.sha256("\0".join(_command(root, Path("/"))).encode()).hexdigest()[:12]

    async def create(fresh: Path) -> None:
        fresh.mkdir(parents=True)  # noqa: ASYNC240 - one call on a local disk
        await run_text(["truncate", f"--size={_SIZE}", str(_disk(fresh))], _MAKE_S)
        await run_text(_command(root, fresh), _MAKE_S)

    folder = root.with_name(f"disk-{digest}")
    return _disk(await create_once(folder, create, _MAKE_S, "another process that creates the image"))


def _disk(folder: Path) -> Path:
    return folder / "disk.ext4"


def _command(root: Path, folder: Path) -> list[str]:
    return ["mkfs.ext4", "-q", "-J", "size=16", "-d", str(root), str(_disk(folder))]
