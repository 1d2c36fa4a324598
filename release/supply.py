"""SBOMs and signatures of the images.

What belongs here: reading and signing the images in ``images.json``. What does not: building.
"""

import asyncio
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import click

from devkit.errors import DevkitError
from devkit.folders import cache_root
from devkit.process import run_text
from gpushare.errors import ConfigError
from gpushare.runtime.program import run
from release import layout
from release.__main__ import DIGESTS
from release.build import built
from release.contents import read
from release.recipe import ROOT, uv_version
from release.sbom import document

_LISTS: Final = ROOT / "dist"
_SUMS: Final = "SHA256SUMS"
_STEP_S: Final = 300.0


@click.group()
def cli() -> None:
    """Create SBOMs and signatures of the images in images.json."""


@cli.command()
def digests() -> None:
    """Print the digests of the images.

    The format is an output of a pipeline step.
    """
    found = {name: reference.rpartition("@")[2] for name, reference in references().items()}
    click.echo(f"digests={json.dumps(found)}")


@cli.command()
def sbom() -> None:
    """Write the SBOM of each image.

    The file dist/<service>.cdx.json lists what its layers contain (CycloneDX).
    """
    _LISTS.mkdir(exist_ok=True)
    for service, reference in references().items():
        digest = reference.rpartition("@")[2]
        contents = read(layout.holding(built(), digest), digest)
        listed(service).write_text(document(service, digest, contents))
        click.echo(f"{listed(service)}: {len(contents.debian)} packages of the distribution")


@cli.command()
def sign() -> None:
    """Sign each image by digest, and attest its SBOM."""
    _need_cosign()
    for service, reference in references().items():
        for command in sign_commands(service, reference):
            asyncio.run(run_text(command, _STEP_S))
        click.echo(f"signed {reference}")


@cli.command("sign-release")
def sign_release() -> None:
    """Sign the checksums of dist/, and with them all files of the release."""
    if not (_LISTS / _SUMS).exists():
        raise ConfigError(f"{_LISTS / _SUMS} does not exist: run make release")
    _need_cosign()
    asyncio.run(run_text(sign_file_command(_LISTS / _SUMS), _STEP_S))
    click.echo(f"signed {_LISTS / _SUMS}")


def references(file: Path = ROOT / DIGESTS) -> Mapping[str, str]:
    """Return service → name@digest of the last build."""
    if not file.exists():
        raise ConfigError(f"{file} does not exist: run make images")
    found: dict[str, str] = json.loads(file.read_text())
    return found


def listed(service: str) -> Path:
    """Return the SBOM file of a service."""
    return _LISTS / f"{service}.cdx.json"


def sign_commands(service: str, reference: str) -> list[list[str]]:
    """Return the commands that sign an image, and attest its SBOM."""
    predicate = f"--predicate={listed(service)}"
    attest = ["cosign", "attest", "--yes", "--type=cyclonedx", predicate, reference]
    return [["cosign", "sign", "--yes", reference], attest]


def sign_file_command(file: Path) -> list[str]:
    """Return the command that signs a file; the signature is beside it."""
    return ["cosign", "sign-blob", "--yes", f"--bundle={file}.sigstore.json", str(file)]


def _need_cosign() -> None:
    if shutil.which("cosign") is None:
        raise DevkitError("cosign is not on PATH: install it, see docs.sigstore.dev")


def uv() -> str:
    """Return the uv of ``make setup``, or that on PATH."""
    version = uv_version((ROOT / ".ci/bootstrap").read_text())
    own = cache_root() / f"uv-{version}/bin/uv"
    return str(own) if own.exists() else "uv"


if __name__ == "__main__":
    run(cli, failure="images: ")
