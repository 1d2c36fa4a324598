"""The answer of prioritize, prepared while kube-scheduler reads that of filter.

kube-scheduler handles one pod after the other, and asks for the scores of the nodes that filter has just
returned. Computed meanwhile, they take it no time.
"""

import time
from collections.abc import Callable, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

T = TypeVar("T")

_KEPT_S: Final = 1.0
"""Scores are advice, and bind decides on the current ledger: those of a moment ago are as good."""
_NAMES: Final = b'"NodeNames":['
_END: Final = b"]}"


class _Prepared(NamedTuple, Generic[T]):
    request: bytes
    answer: T
    at_s: float


class PreparedScores(Generic[T]):
    """The scores for the last pod, or what computes them. ``clock`` is in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last: _Prepared[T] | None = None

    def keep(self, request: bytes, answer: T) -> None:
        """Keep the answer to this request, in place of the last one."""
        self._last = _Prepared(request, answer, self._clock())

    def take(self, request: bytes) -> T | None:
        """The answer to a request that was expected; None for another one, and for one that comes late."""
        last, self._last = self._last, None
        if last is None or last.request != request or self._clock() > last.at_s + _KEPT_S:
            return None
        return last.answer


def expected_request(filter_request: bytes, names: Sequence[str]) -> bytes | None:
    """The request of prioritize after filter has returned these nodes; None if filter's has another form.

    It is filter's own with these names, as Go writes it. Names of nodes contain nothing that JSON escapes.
    """
    start = filter_request.rfind(_NAMES)
    if start < 0 or not filter_request.endswith(_END):
        return None
    listed = ",".join(f'"{name}"' for name in names).encode()
    return b"".join((filter_request[: start + len(_NAMES)], listed, _END))
