"""Fair order between clients: round robin over their addresses, then over the items of an address."""

import asyncio
import socket
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

T = TypeVar("T")

_SLICE_S: Final = 0.002
"""The duration of a slice, but at least one step: other work waits for it."""
_DEFERRED_S: Final = 0.01
"""The time between two slices while requests arrive."""
_RETRY_S: Final = 0.001


def source_of(host: str) -> str:
    """Return what counts as one client: an IPv4 address, or a /64 network of IPv6, which one host may own."""
    host = host.partition("%")[0].removeprefix("::ffff:")
    if ":" not in host:
        return host
    return socket.inet_pton(socket.AF_INET6, host)[:8].hex()


class FairQueue(Generic[T]):
    """Items by source. Each call of ``next`` serves another source, as long as several have items."""

    def __init__(self) -> None:
        self._items: OrderedDict[str, deque[T]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._items)

    def count(self, source: str) -> int:
        """Return the number of items of a source."""
        return len(self._items.get(source, ()))

    def put(self, source: str, item: T) -> None:
        """Append an item."""
        self._items.setdefault(source, deque()).append(item)

    def next(self) -> tuple[str, T]:
        """Remove and return the next item and its source. Raises KeyError if there is none."""
        source = next(iter(self._items), "")
        return source, self.next_of(source)

    def next_of(self, source: str) -> T:
        """Remove and return the next item of a source, which is then the last one to have its turn."""
        items = self._items.pop(source)
        item = items.popleft()
        if items:
            self._items[source] = items
        return item

    def sources(self) -> tuple[str, ...]:
        """Return the sources with items, in the order of their turns."""
        return tuple(self._items)


class FairSlots:
    """At most ``most`` jobs at a time. A source has at most as many as are free for all others."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken: Counter[str] = Counter()
        self._waiting: FairQueue[asyncio.Future[None]] = FairQueue()

    async def take(self, source: str) -> None:
        """Wait until the source may begin a job."""
        if not self._waiting.count(source) and self._may_take(source):
            self._taken[source] += 1
            return
        begun = asyncio.get_running_loop().create_future()
        self._waiting.put(source, begun)
        try:
            await begun
        except asyncio.CancelledError:
            if begun.done() and not begun.cancelled():
                self.give_back(source)
            raise

    def give_back(self, source: str) -> None:
        """End a job, and begin those that may begin now."""
        self._taken[source] -= 1
        if not self._taken[source]:
            del self._taken[source]
        for waiting in self._waiting.sources():
            while self._waiting.count(waiting) and self._may_take(waiting):
                begun = self._waiting.next_of(waiting)
                if not begun.done():  # cancelled
                    self._taken[waiting] += 1
                    begun.set_result(None)
                    break

    def _may_take(self, source: str) -> bool:
        return self._taken[source] < self._most - self._taken.total()


@dataclass(frozen=True, slots=True)
class End(Generic[T]):
    """The end of steps."""

    result: T


class TimeSlices:
    """Lets one waiter pass in each turn of the event loop: for work in slices of milliseconds.

    With ``asyncio.sleep(0)`` instead, each job computes a slice in each turn of the loop, and a request waits
    for the slices of all jobs. A request may take several turns to arrive, so while a server receives one, a
    waiter passes every 10 ms only; it does pass, whatever clients send.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self._waiting: FairQueue[asyncio.Future[None]] = FairQueue()
        self._scheduled = False
        self._passed_at = float("-inf")
        self._urgent: list[Callable[[], bool]] = []

    def yield_to(self, urgent: Callable[[], bool]) -> None:
        """Let waiters pass less often while ``urgent``."""
        self._urgent.append(urgent)

    async def run(
        self, steps: Generator[None, None, T], *, source: str = "", idle_per_work: float = 0.0
    ) -> T:
        """Run the steps in slices, and return their result.

        After each slice, ``idle_per_work`` times its duration pass before the next one.
        """
        while True:
            await self.turn(source)
            began = self._clock()
            end = self.run_for(steps, _SLICE_S)
            if idle_per_work:
                await self._sleep(idle_per_work * (self._clock() - began))
            if end:
                return end.result

    def run_for(self, steps: Generator[None, None, T], seconds: float) -> End[T] | None:
        """Run steps for that long, but at least one, without waiting for a turn; None if there are more."""
        until = self._clock() + seconds
        try:
            next(steps)
            while self._clock() < until:
                next(steps)
        except StopIteration as end:
            return End(end.value)
        return None

    async def turn(self, source: str = "") -> None:
        """Wait for the next turn of this source; "" is the daemon itself."""
        passing = asyncio.get_running_loop().create_future()
        self._waiting.put(source, passing)
        self._open_soon()
        await passing

    def _open_soon(self) -> None:
        if self._waiting and not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._open)

    def _open(self) -> None:
        now = self._clock()
        if now < self._passed_at + _DEFERRED_S and any(urgent() for urgent in self._urgent):
            asyncio.get_running_loop().call_later(_RETRY_S, self._open)
            return
        self._scheduled = False
        self._passed_at = now
        # One for each turn of the loop, which reads from its sockets between two.
        _, passing = self._waiting.next()
        if not passing.done():  # cancelled
            passing.set_result(None)
        self._open_soon()
