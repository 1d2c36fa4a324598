"""Counts events of a key within a period: what happens again and again, such as rejections of a workload."""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class RecentEvents(Generic[K]):
    """The events of each key in the last ``period_s`` seconds. Times are of any one clock."""

    def __init__(self, period_s: float) -> None:
        self._period_s = period_s
        self._times: dict[K, tuple[float, ...]] = {}

    def add(self, key: K, at: float) -> int:
        """Add an event; returns how many there were within the period, with this one."""
        kept = {each: times for each in self._times if (times := self.times(each, at))}
        self._times = kept | {key: (*kept.get(key, ()), at)}
        return len(self._times[key])

    def forget(self, is_over: Callable[[K], bool]) -> None:
        """Forget the events of the keys that are over."""
        self._times = {key: times for key, times in self._times.items() if not is_over(key)}

    def times(self, key: K, now: float) -> tuple[float, ...]:
        """When the events of a key were that are not too old yet, oldest first."""
        return tuple(at for at in self._times.get(key, ()) if at > now - self._period_s)
