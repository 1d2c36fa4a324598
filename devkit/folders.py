"""Folders of the testbed: its cache, the testbeds and their data.

What belongs here: paths computed from the environment and the name of a testbed, and the check of the cache.
What does not: creating, locking or removing testbeds.
"""

import hashlib
import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

from gpushare.errors import ConfigError

PLAIN_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,38}[a-z0-9])?")
"""Names of testbeds and nodes, which are also names of folders."""
_MEMORY = Path("/dev/shm")  # noqa: S108
ANONYMOUS_PREFIX = "tmp-"
"""Prefix of unnamed testbeds, which are removed when they stop, or by the next start after a crash."""


def cache_root(env: Mapping[str, str] = os.environ) -> Path:
    """Return the cache folder of the testbed, outside the checkout."""
    if chosen := env.get("GPUSHARE_CACHE"):
        return Path(chosen).absolute()
    if base := env.get("XDG_CACHE_HOME"):
        return Path(base).absolute() / "gpushare"
    return Path(env.get("HOME") or Path.home()) / ".cache" / "gpushare"


def writable_cache(env: Mapping[str, str] = os.environ) -> Path:
    """Create the cache folder if needed, and return it; raise ConfigError if it cannot be written."""
    root = cache_root(env)
    try:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=root):
            return root
    except OSError as error:
        raise ConfigError(
            f"cannot write to the cache {root} ({error.strerror}): set GPUSHARE_CACHE to a writable folder"
        ) from None


def bed_folder(name: str, root: Path) -> Path:
    """Return the folder of the testbed ``name``; raise ConfigError for a name that is not a plain word."""
    if not PLAIN_NAME.fullmatch(name):
        raise ConfigError(
            f"testbed name {name!r} cannot be a folder: use 1 to 40 of a-z, 0-9, '.' and '-', "
            "with a letter or digit at both ends"
        )
    return root / "beds" / name


def data_folder(bed: Path, memory: Path = _MEMORY) -> Path:
    """Return the data folder of etcd and the nodes of a testbed: in memory (``/dev/shm``) if possible."""
    if not (memory.is_dir() and os.access(memory, os.W_OK)):
        return bed / "data"
    digest = hashlib.sha256(str(bed).encode()).hexdigest()[:16]
    return memory / f"gpushare-testbed-{os.getuid()}-{digest}"
