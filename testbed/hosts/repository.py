"""A signed local apt repository: the stubs, and a few real packages of the distribution.

What belongs here: building it once. What does not: the stubs (``stubs``).
"""

import hashlib
import os
import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from devkit.folders import cache_root
from devkit.locks import create_once
from devkit.process import run_text
from devkit.waiting import together
from testbed.hosts.stubs import Package, all_packages

KEY: Final = "gpushare-test.asc"
REAL: Final = ("containerd", "docker.io", "libdevmapper1.02.1", "dmsetup", "libnl-3-200", "runc", "tini")
"""Real runtimes, which validate their configuration, and dependencies that the base of hosts lacks."""
_OWNER: Final = "Tests of gpushare <root@localhost>"
_MAKE_S: Final = 300.0
_EPOCH: Final = "SOURCE_DATE_EPOCH=0"
_INDEX: Final = f"""\
apt-ftparchive packages . >Packages
apt-ftparchive release . >Release.fresh
mv Release.fresh Release
export GNUPGHOME="$PWD/keys"
mkdir -m 700 keys
gpg --batch --quiet --passphrase '' --quick-generate-key '{_OWNER}' rsa2048 sign never
gpg --batch --quiet --clearsign --output InRelease Release
gpg --batch --quiet --detach-sign --armor --output Release.gpg Release
gpg --batch --quiet --armor --export >{KEY}
gpgconf --kill all
rm -rf keys
chmod 755 .
"""


async def ensure(packages: Sequence[Package] = ()) -> Path:
    """Return the folder of the repository; create it first if it is not in the cache (about 10 s).

    ``packages`` replaces the usual stubs and all real packages.
    """
    made, real = (list(packages), ()) if packages else (all_packages(os.uname().release), REAL)
    recipe = hashlib.sha256(repr((made, real, _INDEX)).encode()).hexdigest()[:12]
    folder = cache_root() / "hosts" / f"apt-{recipe}"
    create = partial(_make, made, real)
    return await create_once(folder, create, _MAKE_S, "another process that builds packages")


async def _make(packages: list[Package], real: Sequence[str], folder: Path) -> None:
    tree = folder / "tree"
    tree.mkdir(parents=True)
    fetch = ["apt-get", "--quiet=2", "--option=APT::Sandbox::User=root", "download", *real]
    downloads = [run_text(fetch, _MAKE_S, cwd=folder)] if real else []
    await together([*downloads, _build_all(packages, folder)])
    shutil.rmtree(tree)
    await run_text(["/bin/sh", "-ec", _INDEX], _MAKE_S, cwd=folder)


async def _build_all(packages: list[Package], folder: Path) -> None:
    for number, package in enumerate(packages):
        tree = folder / "tree" / str(number)
        write(package, tree)
        build = ["env", _EPOCH, "dpkg-deb", "-Znone", "--root-owner-group", "--build", str(tree), str(folder)]
        await run_text(build, _MAKE_S)


def write(package: Package, tree: Path) -> None:
    """Write the files of a package in ``tree``, as dpkg-deb reads them."""
    control = {"control": package.control, **package.scripts}
    if package.conffiles:
        control["conffiles"] = "".join(f"{name}\n" for name in package.conffiles)
    texts = {**{f"DEBIAN/{name}": text for name, text in control.items()}, **package.files}
    tree.mkdir(mode=0o755)
    for name, text in texts.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("/"):
            path.mkdir()
            continue
        path.write_text(text)
        path.chmod(0o755 if text.startswith("#!") else 0o644)
