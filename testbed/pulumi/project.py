"""A copy of the Pulumi project, so that the engine writes nothing into the checkout."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

_ROOT = Path(__file__).parents[2]
_COPIED = ("Pulumi.yaml", "__main__.py")
_LINKED = ("components", "gpushare")
_PREFIX = "gpushare:"


def lay_out(folder: Path) -> Path:
    """Create the folder: project file, program, and links to the packages that it imports."""
    folder.mkdir(parents=True)
    for name in _COPIED:
        shutil.copy(_ROOT / name, folder / name)
    for name in _LINKED:
        (folder / name).symlink_to(_ROOT / name)
    return folder


def configure(project: Path, stack: str, values: Mapping[str, object]) -> None:
    """Write the configuration of a stack; other keys in the file, written by the engine, stay."""
    file = project / f"Pulumi.{stack}.yaml"
    kept: dict[str, Any] = yaml.safe_load(file.read_text()) if file.exists() else {}
    config = {_PREFIX + key: value for key, value in values.items()}
    file.write_text(yaml.safe_dump({**kept, "config": config}))
