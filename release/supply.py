"""What goes with the images: lists of their Python packages, and signatures by digest.

What belongs here: running uv and cosign over what ``make images`` wrote down. What does not: building.
"""

import asyncio
import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import click

from gpushare.errors import ConfigError, GpuShareError
from release.__main__ import DIGESTS
from release.recipe import ROOT, uv_version
from testbed.errors import TestbedError
from testbed.system.folders import cache_root
from testbed.system.process import run_text

_LISTS: Final = ROOT / "dist"
_STEP_S: Final = 300.0


@click.group()
def cli() -> None:
    """Work on the images that images.json names."""


@cli.command()
def digests() -> None:
    """Print service to digest, as one output of a pipeline's step."""
    found = {name: reference.rpartition("@")[2] for name, reference in references().items()}
    click.echo(f"digests={json.dumps(found)}")


@cli.command()
def sbom() -> None:
    """Write a CycloneDX list of each image's Python packages to dist/<service>.cdx.json."""
    _LISTS.mkdir(exist_ok=True)
    for service in references():
        text = asyncio.run(run_text(sbom_command(_uv(), service), _STEP_S, cwd=ROOT))
        listed(service).write_text(text)
        click.echo(listed(service))


@cli.command()
def sign() -> None:
    """Sign every image by its digest, and its list of packages with it."""
    if shutil.which("cosign") is None:
        raise TestbedError("cosign is not on PATH: install it, see docs.sigstore.dev")
    for service, reference in references().items():
        for command in sign_commands(service, reference):
            asyncio.run(run_text(command, _STEP_S))
        click.echo(f"signed {reference}")


def references(file: Path = ROOT / DIGESTS) -> Mapping[str, str]:
    """What was built last: service to name@digest."""
    if not file.exists():
        raise ConfigError(f"{file} does not exist: run make images")
    found: dict[str, str] = json.loads(file.read_text())
    return found


def listed(service: str) -> Path:
    """Where a service's list of packages is."""
    return _LISTS / f"{service}.cdx.json"


def sbom_command(uv: str, service: str) -> list[str]:
    """From the lock, which is what the build installs."""
    return [
        uv,
        "export",
        "--quiet",
        "--frozen",
        "--no-default-groups",
        "--extra",
        service,
        "--format=cyclonedx1.5",
    ]


def sign_commands(service: str, reference: str) -> list[list[str]]:
    """A signature, and the list as a signed statement about the image."""
    predicate = f"--predicate={listed(service)}"
    return [
        ["cosign", "sign", "--yes", reference],
        ["cosign", "attest", "--yes", "--type=cyclonedx", predicate, reference],
    ]


def _uv() -> str:
    version = uv_version((ROOT / ".ci/bootstrap").read_text())
    own = cache_root() / f"uv-{version}/bin/uv"
    return str(own) if own.exists() else "uv"


def main() -> None:
    """Run the command line; expected failures are one line on stderr."""
    try:
        cli(prog_name="python -m release.supply")
    except GpuShareError as error:
        click.echo(f"images: {error}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
