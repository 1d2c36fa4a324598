"""Files that must survive a crash: read whole, replaced whole."""

import os
from contextlib import suppress
from pathlib import Path

from gpushare.errors import ConfigError

_PRIVATE = 0o700


def read_file(path: Path) -> bytes | None:
    """The content, None where there is no such file. Raises ConfigError where it cannot be read."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error


def replace_file(path: Path, content: bytes, *, mode: int | None = None) -> None:
    """Put the content in place of the file, all or nothing, on the disk when this returns.

    ``mode`` is its permissions, by default what the process gives new files. Missing folders are made,
    for their owner only. Raises ConfigError where that fails.
    """
    draft = path.with_name(f".{path.name}.draft")
    try:
        path.parent.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
        with draft.open("wb") as file:
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise ConfigError(f"cannot write {path}: {error.strerror}") from error


def remove_file(path: Path) -> bool:
    """Remove a file, off the disk when this returns; False where there is none. Raises ConfigError."""
    try:
        path.unlink()
        _sync_folder(path.parent)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise ConfigError(f"cannot remove {path}: {error.strerror}") from error
    return True


def rename_file(path: Path, target: Path) -> None:
    """Move a file within its folder. Raises ConfigError where that fails."""
    try:
        path.replace(target)
        _sync_folder(path.parent)
    except OSError as error:
        raise ConfigError(f"cannot move {path} to {target}: {error.strerror}") from error


def _sync_folder(folder: Path) -> None:
    """A rename is on the disk once its folder is."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
