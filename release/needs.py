"""Checks the requirements of building images on this machine.

What does not belong here: installing them (``.ci/packages``).
"""

import shutil
from typing import Final

from devkit.errors import DevkitError

_BUILDER: Final = "podman"
_BASE_MAKER: Final = "mmdebstrap"
_PUSHER: Final = "skopeo"
_OTHER_BASE: Final = ", or set BASE_IMAGE to an image with Python 3.11 or later"


def look(base: str = "") -> None:
    """Raise DevkitError with what is missing for images on ``base``; empty: built from apt packages."""
    missing = _missing(_BUILDER) if base else _missing(_BUILDER, _BASE_MAKER)
    _refuse("built", missing, _OTHER_BASE if _BASE_MAKER in missing else "")


def look_for_push() -> None:
    """Raise DevkitError if images cannot be pushed from this machine."""
    _refuse("pushed", _missing(_PUSHER))


def _missing(*programs: str) -> list[str]:
    return [program for program in programs if shutil.which(program) is None]


def _refuse(verb: str, missing: list[str], otherwise: str = "") -> None:
    if missing:
        raise DevkitError(
            f"images cannot be {verb} here; missing: {', '.join(missing)} "
            f"(apt-get install {' '.join(missing)}{otherwise})"
        )
