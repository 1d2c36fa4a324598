"""Base images from the Debian or Ubuntu packages of this machine, for builds without a registry.

One replaces ``python:…-slim``: glibc, a shell, Python with ``venv``, and no apt. The other replaces
``gcc``. The same packages give the same bytes. A base is kept until the day in ``release.snapshot``
changes, or a refresh finds other packages.
"""

import hashlib
import json
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Final

from devkit.errors import DevkitError
from devkit.process import run_text
from release import needs
from release.podman import Store
from release.recipe import CONTAINERFILE
from release.snapshot import SNAPSHOT, archives


@dataclass(frozen=True)
class BaseKind:
    """The name of a base, and its packages in addition to the essential ones."""

    name: str
    packages: str


# Wheels in C++ require libstdc++; without usr-is-merged, perl and all its modules are installed.
RUNTIME: Final = BaseKind("base", "libstdc++6,python3,python3-venv,usr-is-merged")
COMPILER: Final = BaseKind("compiler", "gcc,libc6-dev,make,usr-is-merged")

_EXCLUDED: Final = ("doc", "info", "lintian", "locale", "man")
_CLEAN: Final = 'rm -rf "$1"/var/cache/* "$1"/var/lib/apt/lists/* "$1"/var/log/*'
_NO_BYTECODE: Final = 'find "$1/usr" -name __pycache__ -prune -exec rm -rf {} +'
"""The Containerfile compiles bytecode that is checked by content, not by time."""
_RELEASES: Final = "/tmp/releases"  # noqa: S108 - inside the base, which only root writes
_MMDEBSTRAP: Final = (
    "mmdebstrap",
    "--quiet",
    "--variant=essential",
    # Packages expect that /bin is a link from the start.
    "--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr",
    *(f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in _EXCLUDED),
    f'--customize-hook=cat "$1"/var/lib/apt/lists/*Release > "$1"{_RELEASES}',
)
_FINISH: Final = (
    f'--customize-hook=rm "$1"{_RELEASES}',
    f"--customize-hook={_CLEAN}",
    f"--customize-hook={_NO_BYTECODE}",
)
_TAR: Final = "base.tar"
_RECORD: Final = "base.json"
_IMAGE: Final = f"""\
FROM scratch
ADD {_TAR} /
ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
"""
_RELEASE: Final = Path("/etc/os-release")
_APT: Final = Path("/etc/apt")
_MAKE_S: Final = 1200.0
_SHORT_S: Final = 60.0


@dataclass(frozen=True)
class Base:
    """A base on this machine.

    ``digest`` is that of its tar in ``folder``; ``day`` is that of the newest archive which it is from.
    """

    kind: BaseKind
    suite: str
    folder: Path
    digest: str
    day: date

    @property
    def image(self) -> str:
        """Its name in a store, which depends on its content."""
        return f"localhost/gpushare-{self.kind.name}:{self.suite}-{self.digest[:12]}"


def sources(apt: Path) -> Path:
    """Return the file with the archives of the distribution, without those added to the machine."""
    known = [apt / f"sources.list.d/{name}.sources" for name in ("debian", "ubuntu")] + [apt / "sources.list"]
    for path in known:
        if path.is_file():
            return path
    raise DevkitError(f"{apt} has no list of Debian or Ubuntu archives: set BASE_IMAGE")


def codename(release: str) -> str:
    """Return the codename of the distribution from the text of /etc/os-release."""
    return _field("VERSION_CODENAME", release)


def command(suite: str, folder: Path, origin: Sequence[str], kind: BaseKind = RUNTIME) -> list[str]:
    """Return the command that writes the root folder as a tar, and the Release files of its archives."""
    download = f"--customize-hook=download {_RELEASES} {shlex.quote(str(folder / 'releases'))}"
    packages = f"--include={kind.packages}"
    return [*_MMDEBSTRAP, download, *_FINISH, packages, suite, str(folder / _TAR), *origin]


def name(suite: str, service: str, kind: BaseKind = RUNTIME) -> str:
    """Return the name of the folder of a base, which depends on the recipe, the day and the origin."""
    words = (*_MMDEBSTRAP, *_FINISH, kind.packages, _IMAGE, SNAPSHOT, service)
    return f"{suite}-{hashlib.sha256(chr(0).join(words).encode()).hexdigest()[:12]}"


def newest(releases: str) -> date:
    """Return the day of the newest of several Release files."""
    days = [parsedate_to_datetime(line[5:]) for line in releases.splitlines() if line.startswith("Date:")]
    if not days:
        raise DevkitError("the Release files of the archives have no Date: set BASE_IMAGE")
    return max(day.astimezone(UTC) for day in days).date()


async def ensure(cache: Path, kind: BaseKind = RUNTIME, service: str = "", *, refresh: bool = False) -> Base:
    """Return a base, made unless ``cache`` has it or on ``refresh``.

    ``service`` is the URL of a snapshot service; without one, the mirror of this machine is used.
    """
    system = _RELEASE.read_text()
    suite = codename(system)
    folder = cache / "bases" / kind.name / name(suite, service, kind)
    if refresh or not (folder / _RECORD).exists():
        needs.look()
        origin = archives(service, _field("ID", system), suite) if service else [str(sources(_APT))]
        await _make(suite, folder, origin, kind)
    return _read(folder, suite, kind)


async def load(store: Store, base: Base) -> str:
    """Build the image of a base unless the store has it, and return its name."""
    if not (await run_text(store.command("images", "--quiet", base.image), _SHORT_S)).strip():
        (base.folder / CONTAINERFILE).write_text(_IMAGE)
        command = store.build(base.folder, base.folder / CONTAINERFILE, base.image, {})
        await run_text(command, _MAKE_S)
    return base.image


async def _make(suite: str, folder: Path, origin: Sequence[str], kind: BaseKind) -> None:
    """Replace a base. One with the same packages keeps its day, and so the images keep their digests."""
    fresh = folder.with_suffix(".new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    await run_text(["env", "SOURCE_DATE_EPOCH=0", *command(suite, fresh, origin, kind)], _MAKE_S)
    digest = _digest(fresh / _TAR)
    if (folder / _RECORD).exists() and _read(folder, suite, kind).digest == digest:
        shutil.rmtree(fresh)
        return
    day = newest((fresh / "releases").read_text())
    (fresh / _RECORD).write_text(json.dumps({"digest": digest, "day": day.isoformat()}))
    for other in folder.parent.iterdir():
        if other != fresh:
            shutil.rmtree(other)
    fresh.rename(folder)


def _field(name: str, release: str) -> str:
    for line in release.splitlines():
        if line.startswith(f"{name}="):
            return line.partition("=")[2].strip('"')
    raise DevkitError(f"/etc/os-release has no {name}: set BASE_IMAGE")


def _read(folder: Path, suite: str, kind: BaseKind) -> Base:
    record = json.loads((folder / _RECORD).read_text())
    return Base(kind, suite, folder, record["digest"], date.fromisoformat(record["day"]))


def _digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def age(day: date, today: date) -> str:
    """Return what a person wants to know about the packages of a base."""
    days = (today - day).days
    return f"packages of {day} ({days} {'day' if days == 1 else 'days'} old)"


def today() -> date:
    """Return the day of now, from which ages count."""
    return datetime.now(UTC).date()
