"""A bounded sample of the pods seen, and the sequences cut from it. Equal pods give equal sequences."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from gpushare.scheduling.placement.replay.needs import Need, Priced, Room, Sequences, fits
from gpushare.scheduling.placement.replay.value import WORTH

SEQUENCES: Final = 128
"""With 16, chance decides too often which node loses least, and small pods spread over empty nodes."""
LENGTH: Final = 64
_MOST: Final = 2048
_FIRST: Final = 25
_EVERY: Final = 800
_SEED: Final = 12345
_MASK: Final = 2**64 - 1


class Sample:
    """Each pod at first. When it is full, it drops every other pod, and sees half as many from then on."""

    def __init__(self) -> None:
        self._needs: list[Need] = []
        self._stride = 1
        self._seen = 0

    def see(self, need: Need) -> bool:
        """Add a pod; whether it is time to learn: at 25, 50, 100, … 800 pods, then every 800."""
        if self._seen % self._stride == 0:
            self._needs.append(need)
            if len(self._needs) == _MOST:
                self._needs = self._needs[::2]
                self._stride *= 2
        self._seen += 1
        return is_due(self._seen)

    def sequences(self, empty: Iterable[Room]) -> Sequences:
        """Sequences of the sample in random order, with the worth of each pod on these empty nodes."""
        kinds = Counter(empty)
        priced = {need: Priced(need, worth(need, kinds)) for need in dict.fromkeys(self._needs)}
        pods = _endless([priced[need] for need in self._needs])
        return tuple(tuple(next(pods) for _ in range(LENGTH)) for _ in range(SEQUENCES))


def is_due(seen: int) -> bool:
    """Whether to learn after this number of pods."""
    doubled, rest = divmod(seen, _FIRST)
    return seen % _EVERY == 0 if seen > _EVERY else not rest and doubled.bit_count() == 1


def worth(need: Need, kinds: Counter[Room]) -> int:
    """WORTH, and as much again times the part of the empty nodes that cannot take the pod.

    Places that few nodes offer cost more.
    """
    unfit = sum(count for room, count in kinds.items() if not fits(room, need))
    return WORTH + (WORTH * unfit // kinds.total() if unfit else 0)


def _endless(pods: list[Priced]) -> Iterator[Priced]:
    """The pods in random order, again and again; the order differs each time."""
    numbers = _random()
    while True:
        for last in range(len(pods) - 1, 0, -1):
            other = next(numbers) % (last + 1)
            pods[last], pods[other] = pods[other], pods[last]
        yield from pods


def _random() -> Iterator[int]:
    """Numbers of 31 bits: xorshift64* by Vigna (An experimental exploration of Marsaglia's generators)."""
    state = _SEED
    while True:
        state ^= state << 13 & _MASK
        state ^= state >> 7
        state ^= state << 17 & _MASK
        yield (state * 2685821657736338717 & _MASK) >> 33
