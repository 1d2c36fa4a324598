"""``make -C release publish``: the files of ``dist/`` as a release on GitHub, and the chart in a registry.

What belongs here: the commands of gh and skopeo. What does not: building (``release.bundle``) and signing
(``release.supply``). It publishes what ``SHA256SUMS`` lists, after comparing it.
"""

import hashlib
import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import click

from gpushare import __version__
from gpushare.errors import ConfigError
from gpushare.runtime.program import run
from release.bundle import DIST, SUMS
from release.chart import NAME
from release.recipe import ROOT
from release.version import check_tag


@click.command()
@click.option("--tag", envvar="TAG", required=True, help="Tag of the release, which exists.")
@click.option("--registry", envvar="REGISTRY", required=True, help="Registry for the chart.")
@click.option("--dist", type=click.Path(path_type=Path), default=DIST, help="Folder with the files.")
def cli(tag: str, registry: str, dist: Path) -> None:
    """Publish the files of a release."""
    check_tag(tag, ROOT)
    files = listed(dist)
    with tempfile.NamedTemporaryFile("w", suffix=".md") as notes:
        notes.write(changes((ROOT / "CHANGELOG.md").read_text(), __version__))
        notes.flush()
        commands = [push_command(dist, registry), release_command(tag, files, Path(notes.name))]
        for command in commands:
            subprocess.run(command, check=True)  # noqa: S603 - our own commands


def listed(dist: Path) -> list[Path]:
    """Return the files of the release. Raises ConfigError if one is missing or is not what was built."""
    sums = dist / SUMS
    if not sums.exists():
        raise ConfigError(f"{sums} does not exist: run make release")
    found = [sums, *sorted(dist.glob(f"{SUMS}.*"))]
    for line in sums.read_text().splitlines():
        digest, _, name = line.partition("  ")
        file = dist / name
        if not file.exists() or hashlib.sha256(file.read_bytes()).hexdigest() != digest:
            raise ConfigError(f"{file} is not the file of {SUMS}: run make release again")
        found.append(file)
    return found


def changes(changelog: str, version: str) -> str:
    """Return the section of a version, without its heading."""
    section = re.search(
        rf"^## {re.escape(version)} - .*?\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL
    )
    return section[1].strip() + "\n" if section else ""


def release_command(tag: str, files: Sequence[Path], notes: Path) -> list[str]:
    """Return the command that creates a release of an existing tag."""
    return ["gh", "release", "create", tag, "--verify-tag", f"--notes-file={notes}", *map(str, files)]


def push_command(dist: Path, registry: str) -> list[str]:
    """Return the command that pushes the chart byte for byte."""
    archive = dist / f"{NAME}-{__version__}.chart.oci.tar"
    target = f"docker://{registry}/charts/{NAME}:{__version__}"
    return ["skopeo", "copy", "--quiet", "--preserve-digests", f"oci-archive:{archive}", target]


if __name__ == "__main__":
    run(cli, failure="release: ")
