"""Controllers as others have them: ansible-core with what it depends on, and a collection from its tarball.

What belongs here: making such a controller from an environment of the checkout, and running its commands
outside of the checkout. What does not: the checkout's own runs (``playbooks``).
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name

ROOT: Final = Path(__file__).parents[2]
DEPENDENCIES: Final = ("kubernetes.core", "community.general", "ansible.posix")
"""The collections that galaxy.yml names; a test has no Galaxy to get them from."""


@dataclass(frozen=True)
class Controller:
    """An environment and a home of its own, where nothing of the checkout can be found."""

    folder: Path

    @property
    def python(self) -> Path:
        """The interpreter that runs Ansible."""
        return self.folder / "venv/bin/python"

    @property
    def collection(self) -> Path:
        """Where the collection is installed."""
        return self.folder / "collections/ansible_collections/gpushare/nodes"

    def run(self, *argv: str | Path) -> subprocess.CompletedProcess[str]:
        """Run the interpreter with these arguments, in the home of this controller."""
        return subprocess.run(  # noqa: S603 - our own program and files
            [self.python, *argv],
            cwd=self.folder,
            env={
                "HOME": str(self.folder),
                "LANG": "C.UTF-8",
                "PATH": os.environ["PATH"],
                "ANSIBLE_COLLECTIONS_PATH": str(self.folder / "collections"),
                "ANSIBLE_NOCOLOR": "1",
            },
            capture_output=True,
            text=True,
            check=False,
        )

    def ansible(self, program: str, *argv: str | Path) -> subprocess.CompletedProcess[str]:
        """Run one of Ansible's programs: ``playbook`` for ``ansible-playbook``."""
        return self.run("-m", "ansible", program, *argv)


def build(folder: Path) -> Path:
    """Build the tarball of the collection as its publisher does, and return its path."""
    argv = [sys.executable, "-m", "ansible", "galaxy", "collection", "build"]
    subprocess.run(  # noqa: S603 - our own program and files
        [*argv, "--output-path", folder, ROOT / "ansible"], check=True, capture_output=True
    )
    (tarball,) = folder.glob("gpushare-nodes-*.tar.gz")
    return tarball


def make(folder: Path, environment: Path, tarball: Path) -> Controller:
    """Make a controller with the ansible-core of ``environment`` and the collection of ``tarball``."""
    controller = Controller(folder)
    argv: list[str | Path] = [environment / "bin/python", "-m", "venv", "--without-pip", folder / "venv"]
    subprocess.run(argv, check=True)  # noqa: S603 - our own program
    (site,) = environment.glob("lib/python3*/site-packages")
    (own,) = folder.glob("venv/lib/python3*/site-packages")
    for name in set(_entries(site, "ansible-core")):
        (own / name).symlink_to(site / name)
    _install(controller, tarball)
    for name in DEPENDENCIES:
        namespace, _, collection = name.partition(".")
        link = folder / "collections/ansible_collections" / namespace / collection
        link.parent.mkdir(exist_ok=True)
        link.symlink_to(site / "ansible_collections" / namespace / collection)
    return controller


def _install(controller: Controller, tarball: Path) -> None:
    where = ("--collections-path", controller.folder / "collections")
    done = controller.ansible("galaxy", "collection", "install", "--no-deps", "--offline", *where, tarball)
    assert done.returncode == 0, done.stdout + done.stderr


def _entries(site: Path, name: str) -> Iterator[str]:
    """Yield what a distribution and all that it requires have directly in site-packages."""
    found = {canonicalize_name(each.metadata["Name"]): each for each in distributions(path=[str(site)])}
    for distribution in _closure(found, name):
        for file in distribution.files or ():
            if file.parts[0] not in ("..", "__pycache__"):
                yield file.parts[0]


def _closure(found: Mapping[NormalizedName, Distribution], name: str) -> Iterator[Distribution]:
    names = [canonicalize_name(name)]
    for each in names:
        yield found[each]
        for requirement in map(Requirement, found[each].requires or ()):
            applies = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
            if applies and canonicalize_name(requirement.name) not in names:
                names.append(canonicalize_name(requirement.name))
