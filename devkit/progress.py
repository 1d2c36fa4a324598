"""Lines that tell a person what a long build does: to stderr, or to whom the caller names.

What belongs here: where the lines go. What does not: their text.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

import click


def _to_stderr(line: str) -> None:
    click.echo(line, err=True)


Listener = Callable[[str], None]
_LISTENER: Final[ContextVar[Listener]] = ContextVar("progress", default=_to_stderr)


def say(line: str) -> None:
    """Tell the listener of this task."""
    _LISTENER.get()(line)


@contextmanager
def told_to(listener: Listener) -> Iterator[None]:
    """Tell ``listener`` what the body does, and the tasks that the body creates."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


class Held:
    """Keeps the lines of work in the background until someone waits for it."""

    def __init__(self) -> None:
        self._last: str | None = None
        self._is_awaited = False

    def __call__(self, line: str) -> None:
        """Print the line if the work is awaited, else keep it as the last one."""
        if self._is_awaited:
            _to_stderr(line)
        else:
            self._last = line

    @contextmanager
    def awaited(self) -> Iterator[None]:
        """Print the last line, and while the body runs each new one."""
        if self._last is not None:
            _to_stderr(self._last)
            self._last = None
        self._is_awaited = True
        try:
            yield
        finally:
            self._is_awaited = False
