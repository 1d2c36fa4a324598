"""Loads the native kernel and calls it. It computes what ``PlainEngine`` does, many times faster."""

import ctypes
import sys
from array import array
from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Final
from weakref import finalize

from gpushare.errors import KernelError
from gpushare.scheduling.placement.replay.needs import Need, Room, Sequences, fullest

LIBRARY: Final = "libgpushare-replay.so"
_FOLDER: Final = Path(sys.prefix, "lib", "gpushare")
"""In the Python environment of a checkout or an image."""
_SIGN: Final = 1 << 63


class KernelEngine:
    """An engine whose evaluations are native. One thread at a time may use it."""

    def __init__(self, library: ctypes.CDLL | None = None) -> None:
        """``library``: another build. Raises KernelError."""
        self._kernel = library or loaded()
        self._engine = ctypes.c_void_p(_made(self._kernel))
        self._rooms: dict[int, Room] = {}
        finalize(self, self._kernel.replay_free, self._engine)

    def put(self, node: int, room: Room | None) -> None:
        """Add or replace a node; None removes it."""
        if room is None:
            self._rooms.pop(node, None)
            self._kernel.replay_remove(self._engine, node)
            return
        self._rooms[node] = room
        words = array("q", (*room[:4], len(room.free), *sorted(room.free)))
        _check(self._kernel.replay_put(self._engine, node, _address(words)))

    def learn(self, sequences: Sequences) -> None:
        """Use these sequences from now on."""
        pods = array("q", (word for sequence in sequences for pod in sequence for word in _words(*pod)))
        ends = array("i", accumulate(map(len, sequences)))
        _check(self._kernel.replay_learn(self._engine, _address(pods), _address(ends), len(ends)))

    def losses(self, need: Need, nodes: Sequence[int]) -> Sequence[int]:
        """The loss of each node."""
        numbers, losses = array("i", nodes), array("q", bytes(8 * len(nodes)))
        pod = array("q", _words(need))
        arguments = _address(pod), _address(numbers), len(numbers), _address(losses)
        _check(self._kernel.replay_losses(self._engine, *arguments))
        return losses

    def gpus(self, need: Need, node: int) -> tuple[int, ...]:
        """The indices of the GPUs for a pod that fits on the node."""
        room = self._rooms[node]
        if need.gpus != 1:
            return fullest(room, need)
        free, pod = ctypes.c_int64(), array("q", _words(need))
        _check(self._kernel.replay_gpu(self._engine, _address(pod), node, ctypes.byref(free)))
        return (room.free.index(free.value),)


@cache
def loaded() -> ctypes.CDLL:
    """The kernel of this Python environment. Raises KernelError."""
    path = _FOLDER / LIBRARY
    if not path.is_file():
        raise KernelError(
            f"the policy replay needs {path}, which is absent: use an image of gpushare, or in a checkout "
            "install gcc and run `make setup`"
        )
    return load(path)


def load(path: Path) -> ctypes.CDLL:
    """The kernel in a file. Raises KernelError."""
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise KernelError(f"cannot load {path}: {error}") from error
    pointer, number = ctypes.c_void_p, ctypes.c_int32
    for name, result, arguments in (
        ("replay_new", pointer, ()),
        ("replay_free", None, (pointer,)),
        ("replay_learn", ctypes.c_int, (pointer, pointer, pointer, number)),
        ("replay_put", ctypes.c_int, (pointer, number, pointer)),
        ("replay_remove", None, (pointer, number)),
        ("replay_losses", ctypes.c_int, (pointer, pointer, pointer, number, pointer)),
        ("replay_gpu", ctypes.c_int, (pointer, pointer, number, pointer)),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def _made(kernel: ctypes.CDLL) -> int:
    engine: int | None = kernel.replay_new()
    if engine is None:
        raise MemoryError("no memory for an engine")
    return engine


def _words(need: Need, worth: int = 0) -> tuple[int, ...]:
    """``struct pod``."""
    models = need.models - 2 * _SIGN if need.models & _SIGN else need.models
    return (*need[:4], need.gpus * need.units * worth, models)


def _address(words: "array[int]") -> int:
    return words.buffer_info()[0]


def _check(status: int) -> None:
    if status:
        raise MemoryError("no memory for the evaluation of nodes")
