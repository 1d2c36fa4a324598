"""What is compared, in which order, and how long each run measures. Pure."""

from collections.abc import Collection, Iterator, Sequence
from typing import Final, NamedTuple

from gpushare.contract import CORE_PER_CARD

DEDICATED: Final = "dedicated"
_SETTLE_S: Final = 3.0
"""Before the window of a run: the first prompts of all clients are then answered."""
_SETTLE_PACED_S: Final = 12.0
"""The same with launch rates, which follow about five samples of a second (docs/project/physical-gpu.md)."""
LONGEST_S: Final = 20.0
"""Of a window, with time left."""
SHORTEST_S: Final = 5.0
"""Of a window; with less time left, a run is not started."""
_AFTER_S: Final = 2.0
"""From the window to the end of the programs."""


class Arm(NamedTuple):
    """One way to run servers of one model on one GPU.

    ``limited``: our library limits the memory of each server. ``shares`` are the servers' compute shares in
    percent: of the GPU's time, by our library for launches and the agent's rates; with ``mps`` of the SMs, by
    MPS. ``without`` is the arm that differs by our library only.
    """

    name: str
    meaning: str
    servers: int = 2
    limited: bool = False
    shares: tuple[int, ...] = ()
    mps: bool = False
    without: str = ""

    @property
    def paced(self) -> bool:
        """Whether launch rates are set."""
        return bool(self.shares) and not self.mps

    @property
    def settle_s(self) -> float:
        """Seconds from the first request to the window."""
        return _SETTLE_PACED_S if self.paced else _SETTLE_S

    def share(self, server: int) -> int:
        """The compute share of a server in percent; without shares, its fair part of the GPU."""
        return self.shares[server] if self.shares else CORE_PER_CARD // self.servers


ARMS: Final = (
    Arm(DEDICATED, "one server, nothing of ours", servers=1),
    Arm("dedicated, limit", "one server with our library for memory", 1, limited=True, without=DEDICATED),
    Arm("time-slicing", "two servers, nothing of ours: the driver alternates between them"),
    Arm("limit", "two servers with our library for memory", limited=True, without="time-slicing"),
    Arm(
        "limit, 50/50",
        "our library for launches, rates as the agent sets them",
        limited=True,
        shares=(50, 50),
    ),
    Arm("limit, 25/75", "the same with other shares", limited=True, shares=(25, 75)),
    Arm("MPS", "two clients of one MPS server, nothing of ours", mps=True),
    Arm("MPS, 50/50", "each with a percentage of the SMs by MPS, nothing of ours", shares=(50, 50), mps=True),
    Arm(
        "MPS, limit, 50/50",
        "mode `mps`: the same, with limits of MPS and our library for memory",
        limited=True,
        shares=(50, 50),
        mps=True,
        without="MPS, 50/50",
    ),
    Arm("MPS, limit, 25/75", "the same with other percentages", limited=True, shares=(25, 75), mps=True),
)


def schedule(arms: Sequence[Arm], rounds: int) -> Iterator[tuple[int, Arm]]:
    """Each arm once in each round; every other round backwards, so that a drift of the GPU cancels out."""
    for number in range(rounds):
        for arm in reversed(arms) if number % 2 else arms:
            yield number, arm


def window_s(
    left_s: float, upcoming: Collection[Arm], start_s: float, longest_s: float = LONGEST_S
) -> float | None:
    """Seconds that the next run measures, if it and all others get the same; None: no time for another.

    ``upcoming`` are the next run and those after it, each of which starts its servers in ``start_s``. Where
    the time is too short for all, the first ones get the shortest window.
    """
    first = next(iter(upcoming))
    if left_s < run_s(first, start_s, SHORTEST_S):
        return None
    fixed_s = sum(run_s(arm, start_s, 0) for arm in upcoming)
    return max(SHORTEST_S, min(longest_s, (left_s - fixed_s) / len(upcoming)))


def run_s(arm: Arm, start_s: float, measure_s: float) -> float:
    """Seconds that a run takes."""
    return start_s + arm.settle_s + measure_s + _AFTER_S


def selected(names: Collection[str]) -> tuple[Arm, ...]:
    """The arms with these names; all without any. Raises ValueError for a name that none has."""
    known = {arm.name for arm in ARMS}
    if unknown := sorted(set(names) - known):
        raise ValueError(f"no arm is named {unknown[0]!r}: use one of {'; '.join(arm.name for arm in ARMS)}")
    return tuple(arm for arm in ARMS if not names or arm.name in names)
