"""The loop of a server: a fixed number of clients, each of which sends its next request after an answer.

A closed loop: load follows the speed of the server, so that no rate must be chosen for an unknown GPU.
Prompts come before further tokens, one at a time, as in servers without chunked prefill. No PyTorch here.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import cycle
from typing import Protocol

from tests.bench.models.trace import Request


class Engine(Protocol):
    """A model with a slot for the sequence of each client; each call ends when its tokens are on the host."""

    slots: int

    def prefill(self, slot: int, prompt: int) -> None:
        """Begin a sequence with a prompt of that length in the slot, and return its first token."""

    def decode(self) -> None:
        """Compute the next token of every slot."""


@dataclass
class Served:
    """What a server did, in seconds of CLOCK_MONOTONIC.

    ``firsts`` are pairs: a request was sent, its first token was there. ``tokens`` are pairs: a time, and the
    tokens that were ready then.
    """

    firsts: list[tuple[float, float]] = field(default_factory=list)
    tokens: list[tuple[float, int]] = field(default_factory=list)


def serve(engine: Engine, requests: Iterable[Request], until_s: float, clock: Callable[[], float]) -> Served:
    """Serve the requests, again from the first after the last, until that time."""
    upcoming, served = cycle(requests), Served()
    left = [0] * engine.slots
    waiting = deque((slot, clock()) for slot in range(engine.slots))
    while (now := clock()) < until_s:
        if waiting:
            slot, sent = waiting.popleft()
            request = next(upcoming)
            engine.prefill(slot, request.prompt)
            now = clock()
            served.firsts.append((sent, now))
            served.tokens.append((now, 1))
            left[slot] = request.output - 1
        else:
            engine.decode()
            now = clock()
            served.tokens.append((now, engine.slots))
            left = [each - 1 for each in left]
        waiting.extend((slot, now) for slot in _ended(left, waiting))
    return served


def _ended(left: list[int], waiting: Iterable[tuple[int, float]]) -> list[int]:
    """The slots whose output is complete, without those whose client has already sent its next request."""
    sent = {slot for slot, _ in waiting}
    return [slot for slot, tokens in enumerate(left) if tokens <= 0 and slot not in sent]
