"""``make images``: builds images, prints their sizes, writes their digests, and pushes them on request.

What belongs here: arguments, which are variables of make, and output.
"""

import asyncio
import json
from pathlib import Path
from typing import Final

import click

from gpushare.runtime.program import run
from release.build import Images, ensure, push
from release.recipe import REGISTRY, ROOT, Order

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
    envvar="BASE_IMAGE",
    default="",
    help="Image with Python 3.11 or later; default: built from apt packages.",
)
@click.option(
    "--compiler-image",
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
@click.option("--push", "publish", envvar="PUSH", is_flag=True, help="Push the images to the registry.")
@click.option(
    "--output", type=click.Path(path_type=Path), default=ROOT / DIGESTS, help="JSON file for the digests."
)
def cli(
    registry: str,
    base_image: str,
    compiler_image: str,
    platforms: str,
    source: str,
    output: Path,
    *,
    publish: bool,
) -> None:
    """Build the images of all services and write their digests."""
    order = Order(registry, base_image, compiler_image, tuple(filter(None, platforms.split(","))), source)
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
