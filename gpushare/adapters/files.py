"""Files that are read as a whole, and replaced so that a crash leaves the old or the new one."""

import os
from contextlib import suppress
from pathlib import Path

from gpushare.errors import ConfigError

_PRIVATE = 0o700


def read_file(path: Path) -> bytes | None:
    """Return the content, None if the file does not exist. Raises ConfigError if it cannot be read."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error


def text_if_any(path: Path) -> str:
    """Return the text; empty if it cannot be read, as files of processes and logs come and go."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def replace_file(path: Path, content: bytes, *, mode: int | None = None) -> None:
    """Replace the file atomically; the content is on disk when this returns.

    ``mode`` sets its permissions, by default those of the umask. Missing folders are created with mode 0700.
    Raises ConfigError on failure.
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
    """Remove the file durably; return False if it does not exist. Raises ConfigError."""
    try:
        path.unlink()
        _sync_folder(path.parent)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise ConfigError(f"cannot remove {path}: {error.strerror}") from error
    return True


def rename_file(path: Path, target: Path) -> None:
    """Rename a file within its folder. Raises ConfigError on failure."""
    try:
        path.replace(target)
        _sync_folder(path.parent)
    except OSError as error:
        raise ConfigError(f"cannot move {path} to {target}: {error.strerror}") from error


def _sync_folder(folder: Path) -> None:
    """Flush the folder: only then is a rename durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
