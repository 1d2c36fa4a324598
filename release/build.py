"""Builds images into a layout on disk, and copies them from there to registries and nodes.

What belongs here: the order of steps and the cache. What does not: the command lines of podman
(``release.podman``) and the base (``release.base``).
"""

import hashlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from devkit.errors import DevkitError
from devkit.folders import cache_root
from devkit.locks import exclusive
from devkit.process import run_text
from devkit.progress import say
from gpushare import __version__
from release import base, contents, layout, needs, podman, pypi, recipe
from release.base import Base
from release.podman import Store, platforms_or_own, stage_name
from release.recipe import ROOT, Order

BASE_DAY: Final = "io.gpushare.base.day"
"""The label with the day of the apt packages in an image."""
_BUILD_S: Final = 3600.0
_SHORT_S: Final = 60.0
_KEPT: Final = 3
"""Number of builds in the cache, about 130 MB each."""


@dataclass(frozen=True)
class Images:
    """Built images: ``references`` maps services to ``<registry>/<service>@<digest>``.

    ``folder`` is an OCI image layout with all of them; later builds remove it. ``sizes`` are the bytes of a
    pull.
    """

    references: Mapping[str, str]
    folder: Path
    sizes: Mapping[str, int]


async def ensure(order: Order | None = None) -> Images:
    """Return the images of the current sources; build them first if needed.

    Progress is printed to stderr. Raises DevkitError with missing requirements of this machine, or with the
    output of the step that failed.
    """
    order = order or Order()
    cache = cache_root() / "images"
    async with exclusive(cache / ".lock", _BUILD_S, "another build of images"):
        bases = await _bases(order, cache)
        build = recipe.key(order, await revision(), bases=[base.image for base in bases.values()])
        folder = built() / build
        # A name of a base without a digest may mean another image today.
        if not folder.exists() or (order.refresh and order.base):
            await _build_layout(order, bases, cache, folder)
            _prune(built())
        images = _images(order, folder)
    _say(f"base: {_age(order, bases, images)}")
    return images


async def push(order: Order) -> Images:
    """Push the images to the registry of the order with the same digests, and return them.

    Credentials are those of skopeo (``skopeo login``).
    """
    needs.look_for_push()
    images = await ensure(order)
    for service in images.references:
        target = f"docker://{order.registry}/{service}:{recipe.tag(images.folder.name)}"
        await run_text(podman.copy(f"oci:{images.folder}:{service}", target), _BUILD_S)
        _say(f"pushed {target}")
    return images


def built() -> Path:
    """Return the folder with the layouts of the last builds."""
    return cache_root() / "images" / "built"


async def revision() -> str:
    """Return the last commit of the sources; empty for uncommitted changes, or without a checkout."""
    names = [path for path in (*recipe.SOURCES, recipe.CONTAINERFILE) if (ROOT / path).exists()]
    try:
        changed = await run_text(["git", "status", "--porcelain", "--", *names], _SHORT_S, cwd=ROOT)
        commit = await run_text(["git", "log", "-1", "--format=%H", "--", *names], _SHORT_S, cwd=ROOT)
    except (OSError, DevkitError):
        return ""
    return "" if changed.strip() else commit.strip()


async def _bases(order: Order, cache: Path) -> dict[str, Base]:
    """Return the bases from apt packages, by the argument of the Containerfile."""
    if order.base:
        return {}
    wanted = {"BASE_IMAGE": base.RUNTIME, **({} if order.compiler else {"COMPILER_IMAGE": base.COMPILER})}
    return {
        argument: await base.ensure(cache, kind, order.snapshots, refresh=order.refresh)
        for argument, kind in wanted.items()
    }


def _age(order: Order, bases: Mapping[str, Base], images: Images) -> str:
    """Return what the images are built on, and how old that is."""
    if made := bases.get("BASE_IMAGE"):
        return f"{made.suite}, {base.age(made.day, base.today())}; REFRESH=1 takes the packages of today"
    digest = next(iter(images.references.values())).rpartition("@")[2]
    day = contents.read(images.folder, digest).snapshot
    return f"{order.base}, {base.age(day, base.today()) if day else 'of unknown age'}"


async def _build_layout(order: Order, bases: Mapping[str, Base], cache: Path, folder: Path) -> None:
    started = time.monotonic()
    _say("building images: about 2 minutes on 2 cores with an empty cache, 30 s if only sources changed")
    needs.look(order.base)
    store = _store(order, bases, cache)
    await _build_all(order, bases, store)
    fresh = folder.with_suffix(".new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    for service in _services():
        await run_text(store.export(service, fresh, several=bool(order.platforms)), _BUILD_S)
    shutil.rmtree(folder, ignore_errors=True)
    fresh.rename(folder)
    _say(f"built images in {time.monotonic() - started:.0f} s")


async def _build_all(order: Order, bases: Mapping[str, Base], store: Store) -> None:
    containerfile = ROOT / recipe.CONTAINERFILE
    named = {"BASE_IMAGE": order.base, "COMPILER_IMAGE": order.compiler}
    arguments = {
        "UV_VERSION": recipe.uv_version((ROOT / ".ci/bootstrap").read_text()),
        **{argument: image for argument, image in named.items() if image},
        **{argument: await base.load(store, made) for argument, made in bases.items()},
    }
    labels = await _labels(order, bases)
    pull = order.refresh and bool(order.base)
    with tempfile.TemporaryDirectory() as private:
        secrets = pypi.secrets(os.environ, Path(private))
        for service in _services():
            for platform in platforms_or_own(order.platforms):
                flags = [*labels, f"--target={service}", *([f"--platform={platform}"] if platform else [])]
                name = stage_name(service, platform)
                command = store.build(ROOT, containerfile, name, arguments, secrets, flags, pull=pull)
                await run_text(command, _BUILD_S)
            if order.platforms:
                with suppress(DevkitError):
                    await run_text(store.remove_list(service), _SHORT_S)
                await run_text(store.create_list(service, order.platforms), _SHORT_S)


async def _labels(order: Order, bases: Mapping[str, Base]) -> list[str]:
    """Return the labels that are not in the Containerfile.

    A base from a registry has a name and perhaps a digest, one from apt packages the day of these.
    """
    base_name, _, base_digest = order.base.partition("@")
    values = {
        "version": __version__,
        "revision": await revision(),
        "source": order.source,
        "base.name": base_name,
        "base.digest": base_digest,
    }
    labels = {f"org.opencontainers.image.{name}": value for name, value in values.items() if value}
    if made := bases.get("BASE_IMAGE"):
        labels[BASE_DAY] = made.day.isoformat()
    return [f"--label={name}={value}" for name, value in labels.items()]


def _images(order: Order, folder: Path) -> Images:
    found = layout.digests(folder)
    references = {name: recipe.reference(order.registry, name, digest) for name, digest in found.items()}
    return Images(references, folder, {name: layout.size(folder, digest) for name, digest in found.items()})


def _store(order: Order, bases: Mapping[str, Base], cache: Path) -> Store:
    """Return the store for the current dependencies and bases; remove other stores."""
    texts = [(ROOT / name).read_text() for name in ("uv.lock", recipe.CONTAINERFILE)]
    images = [order.base, order.compiler, *(made.image for made in bases.values())]
    folder = cache / "stores" / _short("\0".join([*images, *texts]))
    for other in folder.parent.glob("*"):
        if other != folder:
            remove_store(other)
    # Podman requires the same folder for a store each time.
    volatile = Path("/run" if os.geteuid() == 0 else "/tmp")  # noqa: S108 - as podman does
    return Store(folder, volatile / f"gpushare-{_short(str(folder))}")


def remove_store(folder: Path) -> None:
    """Remove a store. Containers of a build or test that was killed have left mounts there."""
    for line in reversed(Path("/proc/self/mounts").read_text().splitlines()):
        mounted = Path(line.split()[1])
        if mounted.is_relative_to(folder):
            subprocess.run(["umount", "--lazy", str(mounted)], check=True)  # noqa: S603, S607
    shutil.rmtree(folder)


def _prune(folder: Path) -> None:
    """Remove all but the last builds."""
    for old in sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime)[:-_KEPT]:
        shutil.rmtree(old)


def _services() -> list[str]:
    return recipe.services((ROOT / recipe.CONTAINERFILE).read_text())


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _say(text: str) -> None:
    say(f"images: {text}")
