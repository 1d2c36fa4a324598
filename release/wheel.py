"""A hook of hatchling that adds the manual pages to the wheel.

``release.bundle`` enables it: the pages need all commands, which the build of an image and an editable
installation do without.
"""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

from release import man_pages


class ManualPages(BuildHookInterface[Any]):
    """Renders the pages for the time of the build."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - hatchling's signature
        """Add a folder with the pages to the data of the wheel."""
        self._folder = TemporaryDirectory()
        for name, text in man_pages.pages().items():
            (Path(self._folder.name) / name).write_text(text)
        build_data["shared_data"][self._folder.name] = man_pages.FOLDER

    def finalize(self, *_: object) -> None:
        """Remove the folder."""
        self._folder.cleanup()
