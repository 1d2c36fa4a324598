"""The files of ``examples/`` that a release has: manifests with its image ``samples``, and the recipes."""

import re
from collections.abc import Mapping
from typing import Final

from release.recipe import ROOT

_SAMPLES: Final = re.compile(r"(?<=image: )\S+/samples:\S+")


def examples(samples: str) -> Mapping[str, str]:
    """Return the manifests by the names of their files without suffix."""
    files = sorted((ROOT / "examples").glob("*.yaml"))
    return {path.stem: _SAMPLES.sub(samples, path.read_text()) for path in files}


def recipes() -> Mapping[str, str]:
    """Return the files of the recipes, which have images of others, by their path below ``examples/``."""
    folder = ROOT / "examples"
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in sorted((folder / "recipes").rglob("*.yaml"))
    }
