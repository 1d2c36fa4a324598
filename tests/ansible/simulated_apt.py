"""The real apt on simulated packages: nothing is installed; for tests of this folder.

What belongs here: an installation with the options of the role packages. What does not: the packages.
"""

import re
import subprocess
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from jinja2 import Environment

from testbed.hosts.stubs import Package
from tools.role_docs import ROLES

Installed = Mapping[str, str]


class Apt:
    """The real apt with a private state; ``run`` returns the packages that would be installed after it."""

    def __init__(self, folder: Path, offered: Sequence[Package]) -> None:
        self._folder, self._offered = folder, offered
        for name in ("lists/partial", "archives/partial", "parts", "repository"):
            (folder / name).mkdir(parents=True)
        sections = (f"{each.control}Filename: {each.name}.deb\nSize: 1\n" for each in offered)
        (folder / "repository/Packages").write_text("\n".join(sections))
        (folder / "sources").write_text(f"deb [trusted=yes] copy:{folder}/repository ./\n")
        self._write_status({}, ())
        self._apt("update")

    def run(
        self,
        installed: Installed,
        requested: Installed,
        held: Collection[str] = (),
        removed: Collection[str] = (),
    ) -> dict[str, str]:
        """Install ``requested`` with the options of the role packages; raise the error of apt."""
        self._write_status(installed, held)
        names = [f"{name}={version}" for name, version in requested.items()]
        names += [f"{name}-" for name in removed]
        options = ["--no-install-recommends", "--allow-downgrades", "--allow-change-held-packages"]
        output = self._apt("install", "--simulate", "--yes", *options, *names)
        after = {**installed, **dict(re.findall(r"^Inst (\S+) (?:\[\S+\] )?\((\S+)", output, re.MULTILINE))}
        removed = set(re.findall(r"^Remv (\S+)", output, re.MULTILINE))
        return {name: version for name, version in after.items() if name not in removed}

    def upgrades(self, installed: Installed) -> list[str]:
        """Return the packages that an upgrade of the system changes, without holds."""
        self._write_status(installed, ())
        return re.findall(r"^Inst (\S+)", self._apt("dist-upgrade", "--simulate", "--yes"), re.MULTILINE)

    def pin(self, version: str) -> None:
        """Write the preferences of the role nvidia_driver."""
        template = (ROLES / "nvidia_driver/templates/preferences.j2").read_text()
        variables = {"__nvidia_driver_target": version, "__nvidia_driver_branch": version.partition(".")[0]}
        text = Environment(autoescape=False).from_string(template).render(variables)  # noqa: S701 - no HTML
        (self._folder / "preferences").write_text(text)

    def unpin(self) -> None:
        """Remove the preferences."""
        (self._folder / "preferences").unlink()

    def _write_status(self, installed: Installed, held: Collection[str]) -> None:
        controls = {(each.name, each.version): each.control for each in self._offered}
        sections = (
            f"{controls[each]}Status: {'hold' if each[0] in held else 'install'} ok installed\n"
            for each in installed.items()
        )
        (self._folder / "status").write_text("\n".join(sections))

    def _apt(self, *words: str) -> str:
        folder = self._folder
        settings = {
            "Acquire::GzipIndexes": "false",
            "APT::Architecture": "amd64",
            "APT::Sandbox::User": "",
            "Dir::Cache": folder,
            "Dir::Etc::Preferences": folder / "preferences",
            "Dir::Etc::PreferencesParts": folder / "parts",
            "Dir::Etc::SourceList": folder / "sources",
            "Dir::Etc::SourceParts": folder / "parts",
            "Dir::State": folder,
            "Dir::State::status": folder / "status",
        }
        options = [f"--option={key}={value}" for key, value in settings.items()]
        ended = subprocess.run(  # noqa: S603
            ["apt-get", *options, *words],  # noqa: S607
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout
