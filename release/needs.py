"""What building images needs of the machine, and what to do where it is missing.

What belongs here: looking. What does not: installing (``.ci/bootstrap``).
"""

import shutil
from typing import Final

from testbed.errors import TestbedError

_BUILDER: Final = "podman"
_BASE_MAKER: Final = "mmdebstrap"
_PUSHER: Final = "skopeo"
_OTHER_BASE: Final = ", or give a BASE_IMAGE with Python 3.11 or later"


def look(base: str = "") -> None:
    """Raise TestbedError that names what is missing for images on ``base``, apt's own where empty."""
    missing = _missing(_BUILDER) if base else _missing(_BUILDER, _BASE_MAKER)
    _refuse("built", missing, _OTHER_BASE if _BASE_MAKER in missing else "")


def look_for_push() -> None:
    """Raise TestbedError where images cannot be pushed from here."""
    _refuse("pushed", _missing(_PUSHER))


def _missing(*programs: str) -> list[str]:
    return [program for program in programs if shutil.which(program) is None]


def _refuse(verb: str, missing: list[str], otherwise: str = "") -> None:
    if missing:
        raise TestbedError(
            f"images cannot be {verb} here; missing: {', '.join(missing)} "
            f"(apt-get install {' '.join(missing)}{otherwise})"
        )
