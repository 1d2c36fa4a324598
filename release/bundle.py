"""``make release``: writes everything that is installed, to ``dist/``.

Two builds of the same commit write the same bytes. What belongs here: running uv, hatchling and
ansible-galaxy, and the names of files. What does not: the images (``python -m release``), signing
(``release.supply``) and publishing.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click
import yaml

from components.manifests import everything
from components.render import as_yaml
from components.stack import load
from devkit.errors import DevkitError
from gpushare import __version__
from gpushare.contract import RUNBOOKS
from gpushare.errors import ConfigError
from gpushare.model.urls import is_http_url
from gpushare.runtime.program import run
from release import interpreter, krew, man_pages, oci, published, reproducible
from release.archives import ArchiveFile, tar_gz
from release.chart import NAME, chart, linked
from release.recipe import ROOT
from release.supply import references, uv
from release.version import check_tag

DIST: Final = ROOT / "dist"
SUMS: Final = "SHA256SUMS"
DEFAULTS: Final[Mapping[str, Any]] = {
    "kubernetesVersion": "1.36",
    "extender": {},
    "devicePlugins": [{}],
    "isolation": {},
    "monitoring": {},
}
"""The stack of ``install.yaml``, and of the chart without values, except for the images."""
_RUN: Final = frozenset({".py", ".css", ".html", ".js", ".md", ".svg"})
"""Files of the package that the plugins use: also the page of the board, and the runbooks."""
_GALAXY: Final = ROOT / "ansible/.venv/bin/ansible-galaxy"
_COPIES: Final = ROOT / "ansible/plugins/plugin_utils/gpushare"
"""The modules of the collection that git does not have."""
_EPOCH: Final = {"SOURCE_DATE_EPOCH": "315532800"}
"""1980, the first time that a wheel can have."""
_HEADER: Final = f"""\
# gpushare {__version__} with the default settings, for Kubernetes 1.36 and 1.37:
#   kubectl apply --server-side -f install.yaml
# For other versions and settings use the Helm chart, Pulumi, or python -m components.render.
"""


def _url(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """Raises BadParameter for what is no URL, such as an empty variable."""
    if not is_http_url(value):
        example = "https://git.example.org/gpushare"
        raise click.BadParameter(f"{value!r} is not a URL such as {example}", context, parameter)
    return value


@click.command()
@click.option(
    "--images",
    type=click.Path(path_type=Path),
    default=ROOT / "images.json",
    help="Names of the images by digest, as `make images` writes them.",
)
@click.option(
    "--url",
    callback=_url,
    envvar="RELEASE_URL",
    required=True,
    help="URL of the folder from which krew gets the archives.",
)
@click.option(
    "--source",
    callback=_url,
    envvar="IMAGE_SOURCE",
    required=True,
    help="URL of the repository: alerts and the chart link to it, and Galaxy requires it of a collection.",
)
@click.option("--tag", envvar="TAG", default="", help="Tag of the release; must be that of the version.")
@click.option(
    "--snapshots",
    envvar="SNAPSHOT_URL",
    default="",
    help="URL of a snapshot service of Debian, for the Python of the plugins.",
)
@click.option("--output", type=click.Path(path_type=Path), default=DIST, help="Folder for the files.")
def cli(images: Path, url: str, source: str, tag: str, snapshots: str, output: Path) -> None:
    """Write wheel, sdist, install.yaml, chart, collection, plugins, SBOM and checksums."""
    if tag:
        check_tag(tag, ROOT)
    made = build(references(images), url, source, snapshots)
    output.mkdir(parents=True, exist_ok=True)
    for name, content in made.items():
        (output / name).write_bytes(content)
        click.echo(f"{len(content) / 1e6:8.2f} MB  {output / name}")
    click.echo(f"not signed: run make -C release sign-release, which requires cosign, to sign {SUMS}")


def build(images: Mapping[str, str], url: str, source: str, service: str = "") -> dict[str, bytes]:
    """Return all files of a release by name.

    ``service`` is the URL of a snapshot service of Debian, for the Python of the plugins. Raises
    GpuShareError if a program is missing or fails.
    """
    made = {
        **_distributions(),
        "install.yaml": install_yaml(images, source).encode(),
        **charts(images, source),
        **_collection(source),
        f"{NAME}-examples-{__version__}.tar.gz": tar_gz(examples(images)),
        **_plugins(url, service),
        f"{NAME}-{__version__}.cdx.json": _bill_of_materials(),
    }
    return {**made, SUMS: reproducible.checksums(made).encode()}


def install_yaml(images: Mapping[str, str], source: str = "") -> str:
    """Return the objects that ``pulumi up`` creates with the default settings and these images.

    With ``source``, the URL of the repository, alerts link to its page of the runbooks.
    """
    links = {"monitoring": {"runbooks": runbooks_of(source)}} if source else {}
    return _HEADER + as_yaml(everything(load({**DEFAULTS, **links, "images": dict(images)})))


def runbooks_of(source: str) -> str:
    """Return the URL of the page with the runbooks of this version, in the repository with that URL."""
    return f"{source.rstrip('/')}/blob/v{__version__}/{RUNBOOKS}"


def examples(images: Mapping[str, str]) -> dict[str, ArchiveFile]:
    """Return the manifests with their image, and the recipes. Raises ConfigError without ``samples``."""
    if "samples" not in images:
        raise ConfigError("images.json has no image samples: run make images")
    manifests = {f"{name}.yaml": text for name, text in published.examples(images["samples"]).items()}
    texts = {**manifests, **published.recipes()}
    return {f"examples/{path}": ArchiveFile(text.encode()) for path, text in texts.items()}


def charts(images: Mapping[str, str], source: str = "") -> dict[str, bytes]:
    """Return the chart as an archive and as an OCI layout; with links if ``source`` is a repository."""
    files = chart(images, ROOT)
    files = linked(files, source, runbooks_of(source)) if source else files
    archive = tar_gz({f"{NAME}/{name}": ArchiveFile(content) for name, content in files.items()})
    name = f"{NAME}-{__version__}"
    return {
        f"{name}.tgz": archive,
        f"{name}.chart.oci.tar": oci.layout(yaml.safe_load(files["Chart.yaml"]), archive),
    }


def _distributions() -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "hatchling",
            "build",
            "--target=wheel",
            "--target=sdist",
            f"--directory={folder}",
        ]
        _run(command, {**_EPOCH, "HATCH_BUILD_HOOK_ENABLE_CUSTOM": "true"})
        return _content(Path(folder))


def _collection(source: str) -> dict[str, bytes]:
    for needed in (_GALAXY, _COPIES):
        if not needed.exists():
            raise DevkitError(f"{needed} does not exist: run make setup setup-ansible")
    with tempfile.TemporaryDirectory() as folder:
        _run([str(_GALAXY), "collection", "build", f"--output-path={folder}", str(ROOT / "ansible")])
        return {
            name: reproducible.collection(content, source) for name, content in _content(Path(folder)).items()
        }


def _plugins(url: str, service: str) -> dict[str, bytes]:
    requirements = _export("--extra=cli", "--no-emit-project", "--no-header", "--no-annotate")
    licence = (ROOT / "LICENSE").read_bytes()
    archives, programs = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        listed = Path(folder) / "requirements.txt"
        listed.write_text(requirements)
        for platform in krew.PLATFORMS:
            python = interpreter.fetch(platform.arch, service) if platform.has_python else None
            versions = [python.version] if python else krew.PYTHONS
            installed = [_install(listed, platform, each, Path(folder)) for each in versions]
            libraries = krew.joined(installed) | _package()
            packed = tar_gz(krew.archive(libraries, _manual(), licence, python))
            archives[platform.archive] = packed
            if python:
                programs[platform.one_file] = krew.one_file(platform, packed)
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in archives.items()}
    manifests = {
        f"krew-{each.name}.yaml": yaml.safe_dump(krew.manifest(each, url, digests), sort_keys=False).encode()
        for each in krew.PLUGINS
    }
    return archives | programs | manifests


def _install(requirements: Path, platform: krew.Platform, python: str, folder: Path) -> Path:
    """Only wheels, with the hashes of the lock file; nothing of the package is executed."""
    target = folder / f"{platform.uv}-{python}"
    words = ["--quiet", "--no-deps", "--require-hashes", "--only-binary=:all:", "--no-compile-bytecode"]
    places = [f"--python-platform={platform.uv}", f"--python-version={python}", f"--target={target}"]
    _run([uv(), "pip", "install", *words, *places, f"--requirements={requirements}"])
    return target


def _package() -> dict[str, ArchiveFile]:
    """Return the modules of the package, and the files that they read."""
    top = ROOT / "gpushare"
    return {
        f"gpushare/{path.relative_to(top)}": ArchiveFile(path.read_bytes())
        for path in sorted(top.rglob("*"))
        if path.suffix in _RUN
    }


def _manual() -> dict[str, ArchiveFile]:
    """Return the manual pages of the plugins."""
    return {
        name: ArchiveFile(text.encode())
        for name, text in sorted(man_pages.pages().items())
        if name.startswith("kubectl-")
    }


def _bill_of_materials() -> bytes:
    return reproducible.bill_of_materials(_export("--all-extras", "--format=cyclonedx1.5")).encode()


def _export(*words: str) -> str:
    return _run([uv(), "export", "--quiet", "--frozen", "--no-default-groups", *words])


def _content(folder: Path) -> dict[str, bytes]:
    return {
        path.name: path.read_bytes()
        for path in sorted(folder.iterdir())
        if path.is_file() and not path.name.startswith(".")
    }


def _run(command: list[str], more: Mapping[str, str] | None = None) -> str:
    if shutil.which(command[0]) is None:
        raise ConfigError(f"{command[0]} is missing: run make setup")
    done = subprocess.run(  # noqa: S603 - our own programs
        command, cwd=ROOT, env={**os.environ, **(more or {})}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise DevkitError(f"{' '.join(command[:4])} failed with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


if __name__ == "__main__":
    run(cli, failure="release: ")
