"""``make images``: build, print sizes, write the digests for Pulumi, and push where asked to.

What belongs here: arguments, which come from make's variables, and what is printed.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Final

import click

from gpushare.errors import GpuShareError
from release.build import Images, ensure, push
from release.recipe import REGISTRY, ROOT, Order

DIGESTS: Final = "images.json"


@click.command()
@click.option(
    "--registry", envvar="REGISTRY", default=REGISTRY, show_default=True, help="Where images belong."
)
@click.option("--base-image", envvar="BASE_IMAGE", default="", help="Made with apt where none is given.")
@click.option(
    "--compiler-image", envvar="COMPILER_IMAGE", default="", help="With gcc and make, for the library."
)
@click.option("--platforms", envvar="PLATFORMS", default="", help="Like linux/amd64,linux/arm64.")
@click.option("--source", envvar="IMAGE_SOURCE", default="", help="Address of the repository, for a label.")
@click.option("--push", "publish", envvar="PUSH", is_flag=True, help="Copy the images to the registry.")
@click.option("--output", type=click.Path(path_type=Path), default=ROOT / DIGESTS, help="File for digests.")
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
    """One line for each image: what a pull moves, and its name."""
    return "\n".join(
        f"{images.sizes[name] / 1e6:6.1f} MB  {reference}" for name, reference in images.references.items()
    )


def main() -> None:
    """Run the command line; expected failures are one line on stderr."""
    try:
        cli(prog_name="python -m release")
    except GpuShareError as error:
        click.echo(f"images: {error}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
