"""The version number: ``gpushare.__version__``, and the files that repeat it for tools that cannot import it.

``python -m release.version 0.2.0`` writes a new version everywhere, and its section of the changelog from the
fragments in ``changelog.d``; ``make check`` compares.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final

import click

from gpushare import __version__
from gpushare.errors import ConfigError
from gpushare.runtime.program import run
from release.recipe import ROOT

PLACES: Final[Mapping[str, str]] = {
    "gpushare/__init__.py": r'(?<=__version__ = ")[^"]+(?=")',
    "pyproject.toml": r'(?<=^version = ")[^"]+(?=")',
    "uv.lock": r'(?<=^name = "gpushare-kubernetes"\nversion = ")[^"]+(?=")',
    **{
        f"examples/{name}.yaml": r"(?<=gpushare/samples:)\S+"
        for name in ("app-3g", "app-3g-whole-card", "app-6g", "bert", "binpack")
    },
    "charts/gpushare/Chart.yaml": r"(?<=[nV]ersion: )\d+\.\d+\.\d+\S*$",
    "ansible/galaxy.yml": r"(?<=^version: )\S+",
    "ansible/README.md": r"(?<=gpushare-nodes-)\d+\.\d+\.\d+\S*(?=\.tar\.gz)",
}
"""Patterns of the version by file."""
CHANGELOG: Final = "CHANGELOG.md"
FRAGMENTS: Final = "changelog.d"
_FRAGMENT: Final = "*.*.md"
_MAIN: Final = "origin/main"
_FORM: Final = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-rc\.\d+)?")


def found(root: Path) -> dict[str, set[str]]:
    """Return the versions in each file."""
    return {
        name: set(re.findall(pattern, (root / name).read_text(), re.MULTILINE))
        for name, pattern in PLACES.items()
    }


def check_tag(tag: str, root: Path) -> None:
    """Raise ConfigError unless the tag is that of the version, and the changelog is complete."""
    if tag != f"v{__version__}":
        raise ConfigError(f"TAG: {tag!r} is not the tag of version {__version__}; use v{__version__}")
    if not _section(__version__, (root / CHANGELOG).read_text()):
        raise ConfigError(
            f"{CHANGELOG} has no section '## {__version__} - <date>':"
            f" run python -m release.version {__version__} and commit it"
        )
    if left := sorted(path.name for path in (root / FRAGMENTS).glob(_FRAGMENT)):
        raise ConfigError(f"{FRAGMENTS} has changes that are in no section of {CHANGELOG}: {', '.join(left)}")


def _section(version: str, changelog: str) -> re.Match[str] | None:
    return re.search(rf"^## {re.escape(version)} - \d{{4}}-\d\d-\d\d$", changelog, re.MULTILINE)


def write(version: str, root: Path) -> None:
    """Write a version to all places. Raises ConfigError if it is none."""
    if not _FORM.fullmatch(version):
        raise ConfigError(f"{version!r} is not a version; use 1.2.3 or 1.2.3-rc.1")
    for name, pattern in PLACES.items():
        file = root / name
        file.write_text(re.sub(pattern, version, file.read_text(), flags=re.MULTILINE))


def write_changelog(version: str, root: Path, day: date) -> None:
    """Write the section of a version: date the one that is unreleased, else make one from the fragments.

    Raises ConfigError if there is a dated one, or if towncrier fails.
    """
    file = root / CHANGELOG
    text = file.read_text()
    if _section(version, text):
        raise ConfigError(f"{CHANGELOG} already has a section of {version}")
    unreleased = f"## {version} - unreleased\n"
    if unreleased in text:
        file.write_text(text.replace(unreleased, f"## {version} - {day}\n"))
        return
    command = ["build", "--yes", f"--version={version}", f"--date={day}", f"--dir={root}"]
    # Towncrier prints what it reads and removes; only its error is of interest.
    done = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-m", "towncrier", *command], check=False, capture_output=True, text=True
    )
    if done.returncode:
        raise ConfigError(f"towncrier: {(done.stderr or done.stdout).splitlines()[-1]}")


def check_commit(root: Path) -> None:
    """Raise ConfigError unless the commit of the checkout is on the main branch of its origin."""
    git = shutil.which("git") or "git"
    command = [git, "merge-base", "--is-ancestor", "HEAD", _MAIN]
    if subprocess.run(command, cwd=root, check=False).returncode:  # noqa: S603 - git
        raise ConfigError(f"the commit of the tag is not on {_MAIN}: merge it first")


@click.command()
@click.argument("version", required=False)
@click.option("--tag", help="Only check that this tag may be released.")
def cli(version: str | None, tag: str | None) -> None:
    """Print the version, or write VERSION to all files that have it, and its section of the changelog."""
    if tag is not None:
        check_tag(tag, ROOT)
        check_commit(ROOT)
    if version:
        write(version, ROOT)
        write_changelog(version, ROOT, datetime.now(UTC).date())
    click.echo(version or __version__)


if __name__ == "__main__":
    run(cli, failure="version: ")
