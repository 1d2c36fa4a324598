"""The manifests of ``examples/`` with the image ``samples`` of a build."""

import re
from collections.abc import Mapping
from typing import Final

from release.recipe import ROOT

_SAMPLES: Final = re.compile(r"(?<=image: )\S+/samples:\S+")


def examples(samples: str) -> Mapping[str, str]:
    """Return the manifests by the names of their files without suffix."""
    files = sorted((ROOT / "examples").glob("*.yaml"))
    return {path.stem: _SAMPLES.sub(samples, path.read_text()) for path in files}
