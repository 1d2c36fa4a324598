"""The root folder of hosts: a small Debian or Ubuntu, of the same release as this machine if none is named.

What belongs here: its content, and creating it once. What does not: differences between hosts (``files``).
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from devkit.errors import DevkitError
from devkit.folders import cache_root
from devkit.locks import create_once
from devkit.process import run_text
from release.base import codename, sources

_RELEASE: Final = Path("/etc/os-release")
_APT: Final = Path("/etc/apt")
_MAKE_S: Final = 1200.0
_LEFT_OUT: Final = ("doc", "info", "lintian", "locale", "man")
_FINISH: Final = (
    # A host reaches no archive, and each gets its machine ID at boot.
    'rm -rf "$1"/etc/apt/sources.list* "$1"/var/cache/apt/* "$1"/var/lib/apt/lists/* "$1"/var/log/*.log',
    'mkdir -p "$1"/etc/apt/sources.list.d && : >"$1"/etc/machine-id',
)
_DISABLE: Final = (
    'chroot "$1" systemctl --quiet disable apt-daily.timer apt-daily-upgrade.timer',
    'chroot "$1" systemctl --quiet disable systemd-networkd-wait-online',
)


@dataclass(frozen=True)
class HostBase:
    """Packages of the distribution, enabled services, and commands that complete the root folder ``$1``.

    ``suite`` is a release of Debian; without it, the base has the distribution and release of this machine.
    """

    packages: tuple[str, ...]
    finish: tuple[str, ...] = ()
    services: tuple[str, ...] = ("ssh", "systemd-networkd")
    suite: str = ""

    def command(self, suite: str, target: Path, listed: Path) -> list[str]:
        """Return the command that creates the root folder ``target`` from the archives in ``listed``."""
        return [*self._recipe(), suite, str(target), str(listed)]

    def folder(self, suite: str, cache: Path) -> Path:
        """Return its path in the cache, which depends on the recipe."""
        digest = hashlib.sha256("\0".join(self._recipe()).encode()).hexdigest()[:12]
        return cache / "hosts" / f"{suite}-{digest}"

    def _recipe(self) -> list[str]:
        enable = f'chroot "$1" systemctl --quiet enable {" ".join(self.services)}'
        hooks = (*_FINISH, enable, *_DISABLE, *self.finish)
        return [
            "mmdebstrap",
            "--quiet",
            "--variant=minbase",
            # Packages expect that /bin is a link from the start.
            "--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr",
            f"--include={','.join(self.packages)}",
            "--dpkgopt=force-unsafe-io",
            *(f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in _LEFT_OUT),
            *(f"--customize-hook={command}" for command in hooks),
        ]


DEBIAN: Final = HostBase(
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


async def ensure(bases: Sequence[HostBase]) -> dict[HostBase, Path]:
    """Return the root folder of each base; create it first if it is not in the cache (about a minute)."""
    return {base: await _ensure(base) for base in dict.fromkeys(bases)}


async def _ensure(base: HostBase) -> Path:
    suite = base.suite or codename(_RELEASE.read_text())
    folder = base.folder(suite, cache_root())

    async def create(fresh: Path) -> None:
        with TemporaryDirectory() as kept:
            listed = Path(kept) / sources(_APT).name
            listed.write_text(archives_here(suite))
            await run_text(base.command(suite, fresh, listed), _MAKE_S)

    return await create_once(folder, create, _MAKE_S, "another process that creates hosts")


def archives_here(suite: str) -> str:
    """Return the archives of this machine for ``suite``; raise DevkitError if they cannot have it."""
    return archives(sources(_APT).read_text(), _RELEASE.read_text(), suite)


def archives(text: str, release: str, suite: str) -> str:
    """Return the list of archives ``text`` with ``suite`` as release.

    ``release`` is the os-release of the machine with that list.
    """
    machine = codename(release)
    if suite == machine:
        return text
    if "ID=debian" not in release.splitlines() or machine not in text:
        raise DevkitError(f"hosts of {suite} need archives of Debian, and the list has none: {text!r}")
    return text.replace(machine, suite)
