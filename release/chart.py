"""The Helm chart of a release: ``charts/gpushare`` with the names of the images.

The chart in the tree names no images and has no links. What does not belong here: its templates and values,
and the archive (``release.archives``).
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from gpushare.errors import ConfigError

NAME: Final = "gpushare"
_VALUES: Final = "values.yaml"
_CHART: Final = "Chart.yaml"
_NO_RUNBOOKS: Final = b'  runbooks: ""\n'
_SECTION: Final = re.compile(r"(?<=^images:\n)(?:  .*\n)+", re.MULTILINE)
_EMPTY: Final = re.compile(r'^  (?P<name>[a-z-]+): ""$', re.MULTILINE)
_FOREIGN: Final = ("prometheus",)
"""Images that a release does not name, because they are not of this project."""


def chart(images: Mapping[str, str], root: Path) -> dict[str, bytes]:
    """Return the files of the chart by name. Raises ConfigError for an image that is missing."""
    files = _read(root / "charts" / NAME)
    return files | {_VALUES: with_images(files[_VALUES].decode(), images).encode()}


def linked(files: Mapping[str, bytes], home: str, runbooks: str) -> dict[str, bytes]:
    """Return the files with links: to the repository, and from alerts to the page of the runbooks."""
    values = files[_VALUES].replace(_NO_RUNBOOKS, f'  runbooks: "{runbooks}"\n'.encode())
    return {**files, _VALUES: values, _CHART: files[_CHART] + f"home: {home}\n".encode()}


def with_images(values: str, images: Mapping[str, str]) -> str:
    """Return the text of the values with the images. Raises ConfigError for one that is missing."""

    def named(found: re.Match[str]) -> str:
        name = found["name"]
        if name not in images and name not in _FOREIGN:
            raise ConfigError(f"images.json has no image {name}: run make images")
        return f'  {name}: "{images.get(name, "")}"'

    return _SECTION.sub(lambda section: _EMPTY.sub(named, section[0]), values, count=1)


def _read(folder: Path) -> dict[str, bytes]:
    """The folder of rules and dashboards is a link, so that they are once in the tree."""
    paths = [Path(top) / name for top, _, names in os.walk(folder, followlinks=True) for name in names]
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(paths)}
