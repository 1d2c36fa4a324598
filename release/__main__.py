"""``make images``: builds images, prints their sizes, writes their digests, and pushes them on request.

What belongs here: arguments, which are variables of make, and output.
"""

import asyncio
import json
from pathlib import Path
from typing import Any, Final

import click

from gpushare.runtime.program import run
from release.build import Images, ensure, push
from release.recipe import CONTAINERFILE, PINNED, REGISTRY, ROOT, Order, pinned_base

DIGESTS: Final = "images.json"


@click.command()
@click.option(
    "--registry",
    envvar="REGISTRY",
    default=REGISTRY,
    show_default=True,
    help="Registry in the names of images.",
)
@click.option(
    "--base-image",
    "base",
    envvar="BASE_IMAGE",
    default="",
    help="Image with Python 3.11 or later; 'pinned': that of the Containerfile; default: from apt packages.",
)
@click.option(
    "--compiler-image",
    "compiler",
    envvar="COMPILER_IMAGE",
    default="",
    help="Image with gcc and make, for the isolation library.",
)
@click.option(
    "--platforms",
    envvar="PLATFORMS",
    default="",
    help="Platforms, such as linux/amd64,linux/arm64; default: that of this machine.",
)
@click.option(
    "--source",
    envvar="IMAGE_SOURCE",
    default="",
    help="URL of the repository, for the label org.opencontainers.image.source.",
)
@click.option(
    "--snapshots",
    envvar="SNAPSHOT_URL",
    default="",
    help="Snapshot service for the apt packages, such as https://snapshot.debian.org/archive.",
)
@click.option("--refresh", envvar="REFRESH", is_flag=True, help="Build with the packages of today.")
@click.option("--push", "publish", envvar="PUSH", is_flag=True, help="Push the images to the registry.")
@click.option(
    "--output", type=click.Path(path_type=Path), default=ROOT / DIGESTS, help="JSON file for the digests."
)
def cli(base: str, platforms: str, output: Path, *, publish: bool, **settings: Any) -> None:
    """Build the images of all services and write their digests."""
    if base == PINNED:
        base = pinned_base((ROOT / CONTAINERFILE).read_text())
    order = Order(base=base, platforms=tuple(filter(None, platforms.split(","))), **settings)
    images = asyncio.run(push(order) if publish else ensure(order))
    output.write_text(json.dumps(dict(images.references), indent=2) + "\n")
    click.echo(report(images))


def report(images: Images) -> str:
    """Return one line for each image: download size and name."""
    return "\n".join(
        f"{images.sizes[name] / 1e6:6.1f} MB  {reference}" for name, reference in images.references.items()
    )


if __name__ == "__main__":
    run(cli, failure="images: ")
