"""The root folder that hosts start from: a small Debian or Ubuntu of this machine's own release.

What belongs here: what is in it, and making it once. What does not: what differs from host to host
(``files``).
"""

import hashlib
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from release.base import codename, sources
from testbed.system.folders import cache_root
from testbed.system.locks import exclusive
from testbed.system.process import run_text

_RELEASE: Final = Path("/etc/os-release")
_APT: Final = Path("/etc/apt")
_MAKE_S: Final = 1200.0
_LEFT_OUT: Final = ("doc", "info", "lintian", "locale", "man")
_FINISH: Final = (
    # No archive is in reach of a host, and each has an identity of its own.
    'rm -rf "$1"/etc/apt/sources.list* "$1"/var/cache/apt/* "$1"/var/lib/apt/lists/* "$1"/var/log/*.log',
    'mkdir -p "$1"/etc/apt/sources.list.d && : >"$1"/etc/machine-id',
    'chroot "$1" systemctl --quiet enable ssh systemd-networkd',
    'chroot "$1" systemctl --quiet disable apt-daily.timer apt-daily-upgrade.timer',
    'chroot "$1" systemctl --quiet disable systemd-networkd-wait-online',
)


@dataclass(frozen=True)
class Base:
    """Packages of the distribution, and shell commands (``$1`` is the root folder) that finish it."""

    packages: tuple[str, ...]
    finish: tuple[str, ...] = ()

    def command(self, suite: str, target: Path, listed: Path) -> list[str]:
        """Return the command that makes the root folder ``target``."""
        return [*self._recipe(), suite, str(target), str(listed)]

    def folder(self, suite: str, cache: Path) -> Path:
        """Return where it lies once made; another recipe is another folder."""
        digest = hashlib.sha256("\0".join(self._recipe()).encode()).hexdigest()[:12]
        return cache / "hosts" / f"{suite}-{digest}"

    def _recipe(self) -> list[str]:
        return [
            "mmdebstrap",
            "--quiet",
            "--variant=minbase",
            # Where the packages expect it, /bin is a link from the first moment on.
            "--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr",
            f"--include={','.join(self.packages)}",
            "--dpkgopt=force-unsafe-io",
            *(f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in _LEFT_OUT),
            *(f"--customize-hook={command}" for command in (*_FINISH, *self.finish)),
        ]


DEBIAN: Final = Base(
    (
        "ca-certificates",
        "dbus",
        "gnupg",
        "iproute2",
        "iptables",
        "kmod",
        "openssh-server",
        "pciutils",
        "procps",
        "python3",
        "python3-apt",
        "python3-debian",
        "sudo",
        "systemd",
        "systemd-sysv",
    )
)


async def ensure(bases: Sequence[Base]) -> dict[Base, Path]:
    """Return the root folder of each base, made where it is not in the cache yet (about a minute)."""
    suite = codename(_RELEASE.read_text())
    return {base: await _ensure(base, suite) for base in dict.fromkeys(bases)}


async def _ensure(base: Base, suite: str) -> Path:
    folder = base.folder(suite, cache_root())
    async with exclusive(folder.with_suffix(".lock"), _MAKE_S, "another maker of hosts"):
        if not folder.is_dir():
            fresh = folder.with_suffix(".fresh")
            shutil.rmtree(fresh, ignore_errors=True)
            await run_text(base.command(suite, fresh, sources(_APT)), _MAKE_S)
            fresh.rename(folder)
    return folder
