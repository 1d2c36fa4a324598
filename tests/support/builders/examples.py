"""The manifests of ``examples/`` for nodes where a stand-in replaces the image ``samples``."""

from pathlib import Path
from typing import Final

import yaml

from gpushare import __version__

SAMPLES: Final = f"registry.example.com/gpushare/samples:{__version__}"
_FOLDER: Final = Path(__file__).parents[3] / "examples"


def without_commands(name: str) -> str:
    """A manifest whose containers run the command of their image, which answers no probe."""
    objects = list(yaml.safe_load_all((_FOLDER / f"{name}.yaml").read_text()))
    for each in objects:
        for container in each["spec"].get("template", {}).get("spec", {}).get("containers", []):
            container.pop("command", None)
            container.pop("readinessProbe", None)
    return yaml.safe_dump_all(objects, sort_keys=False)
