"""Watch of the kubelet's device-plugin directory with inotify(7)."""

import asyncio
import ctypes
import os
import struct
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Self

from gpushare.errors import KubeletError

# linux/inotify.h
_MOVED_FROM, _MOVED_TO, _CREATE, _DELETE, _MOVE_SELF = 0x40, 0x80, 0x100, 0x200, 0x800
_ONLY_FOLDERS, _IGNORED = 0x01000000, 0x8000
_WATCHED: Final = _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _MOVE_SELF | _ONLY_FOLDERS
_GONE: Final = _MOVE_SELF | _IGNORED
"""IN_IGNORED reports deleted and unmounted directories."""

_EVENT = struct.Struct("iIII")
_BUFFER_BYTES = 64 * 1024

_libc = ctypes.CDLL(None, use_errno=True)


def check_folder(path: Path) -> None:
    """Raise KubeletError with a remedy if sockets cannot be created in the folder."""
    try:
        links = path.stat().st_nlink
    except OSError as error:
        raise KubeletError(f"{path}: {error.strerror}; mount the kubelet's folder there") from error
    if not path.is_dir():
        raise KubeletError(f"{path} is not a folder; mount the kubelet's folder there")
    if not links:
        raise KubeletError(f"{path} was deleted on the host; a restart mounts the folder that replaced it")
    if not os.access(path, os.W_OK | os.X_OK):
        raise KubeletError(f"{path} cannot be written; mount it without readOnly, for a user that may write")


class FolderWatch:
    """Names that are created in or removed from a folder: a context manager and async iterator.

    An empty name means that the kernel dropped events: anything may have changed. Once the folder is deleted,
    moved or unmounted, every step raises KubeletError. If the folder is a mount point and its source is
    deleted, the kernel reports nothing (see ``check_folder``).
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._names: deque[str] = deque()
        self._gone = False
        self._fd = -1

    def __enter__(self) -> Self:
        self._fd = _checked(_libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC), "inotify")
        try:
            _checked(_libc.inotify_add_watch(self._fd, os.fsencode(self._path), _WATCHED), str(self._path))
        except KubeletError:
            os.close(self._fd)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        while not self._names:
            if self._gone:
                raise KubeletError(f"{self._path} was deleted, moved or unmounted")
            await self._readable()
            self._take(os.read(self._fd, _BUFFER_BYTES))
        return self._names.popleft()

    async def _readable(self) -> None:
        loop = asyncio.get_running_loop()
        readable = asyncio.Event()
        loop.add_reader(self._fd, readable.set)
        try:
            await readable.wait()
        finally:
            loop.remove_reader(self._fd)

    def _take(self, events: bytes) -> None:
        for mask, name in _parsed(events):
            if mask & _GONE:
                self._gone = True
            else:
                self._names.append(name)


def _parsed(events: bytes) -> Iterator[tuple[int, str]]:
    at = 0
    while at < len(events):
        _, mask, _, length = _EVENT.unpack_from(events, at)
        at += _EVENT.size + length
        yield mask, os.fsdecode(events[at - length : at].rstrip(b"\0"))


def _checked(result: int, what: str) -> int:
    if result < 0:
        raise KubeletError(f"{what}: {os.strerror(ctypes.get_errno())}")
    return result
