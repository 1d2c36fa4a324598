"""What runs showed: rates and times of single runs, and their medians by arm. Pure."""

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Final, NamedTuple

from tests.bench.models.arms import ARMS, DEDICATED, Arm
from tests.bench.models.serving import Served

_PERCENT: Final = 100


class Window(NamedTuple):
    """The part of a run that counts, in seconds of CLOCK_MONOTONIC."""

    begin_s: float
    end_s: float

    def has(self, at_s: float) -> bool:
        """Whether a time is in it."""
        return self.begin_s <= at_s < self.end_s


class Server(NamedTuple):
    """One server within the window: tokens per second, and the seconds until the first token of each request.

    A request counts if its first token is within the window.
    """

    rate: float
    firsts_s: tuple[float, ...]


class Run(NamedTuple):
    """One arm in one round; ``failure`` is the reason why there are no servers."""

    arm: str
    number: int
    servers: tuple[Server, ...] = ()
    failure: str = ""

    @property
    def rate(self) -> float:
        """Tokens per second of all servers."""
        return sum(server.rate for server in self.servers)


class Summary(NamedTuple):
    """An arm over its rounds: medians of rates, and the first tokens of all rounds, by server.

    ``totals`` are the tokens per second of all servers in each round.
    """

    arm: Arm
    totals: tuple[float, ...]
    rates: tuple[float, ...]
    firsts_s: tuple[tuple[float, ...], ...]

    @property
    def total(self) -> float:
        """The median of the rounds."""
        return median(self.totals)

    @property
    def parts(self) -> tuple[float, ...]:
        """The servers' parts of all tokens, in percent."""
        return tuple(_PERCENT * rate / sum(self.rates) for rate in self.rates)


def measured(served: Served, window: Window) -> Server:
    """What a server did within the window. Raises ValueError if it served nothing."""
    tokens = sum(count for at, count in served.tokens if window.has(at))
    firsts = tuple(first - sent for sent, first in served.firsts if window.has(first))
    if not tokens or not firsts:
        raise ValueError(
            f"{tokens} tokens and {len(firsts)} first tokens in {window.end_s - window.begin_s:.0f} s"
        )
    return Server(tokens / (window.end_s - window.begin_s), firsts)


def summaries(runs: Iterable[Run]) -> Mapping[str, Summary]:
    """The arms that ran, by name, in the order of ``ARMS``."""
    by_arm: dict[str, list[Run]] = {}
    for run in runs:
        if run.servers:
            by_arm.setdefault(run.arm, []).append(run)
    return {arm.name: _summary(arm, by_arm[arm.name]) for arm in ARMS if arm.name in by_arm}


def _summary(arm: Arm, runs: Sequence[Run]) -> Summary:
    by_server = list(zip(*(run.servers for run in runs), strict=True))
    return Summary(
        arm,
        tuple(run.rate for run in runs),
        tuple(median(server.rate for server in rounds) for rounds in by_server),
        tuple(tuple(each for server in rounds for each in server.firsts_s) for rounds in by_server),
    )


def failures(runs: Iterable[Run]) -> Mapping[str, str]:
    """The reasons of the arms that failed, by name."""
    return {run.arm: run.failure for run in runs if run.failure}


def quantile(values: Sequence[float], part: float) -> float:
    """The nearest-rank quantile: the smallest value that at least that part of the values does not exceed."""
    return sorted(values)[max(0, math.ceil(part * len(values)) - 1)]


def kept(found: Mapping[str, Summary], name: str) -> float | None:
    """Tokens per second of all servers of an arm, in percent of the dedicated server; None without it."""
    if DEDICATED not in found:
        return None
    return _PERCENT * found[name].total / found[DEDICATED].total


def cost(found: Mapping[str, Summary], arm: Arm) -> float | None:
    """How many percent fewer tokens an arm has than the same without our library; None if one did not run."""
    if not arm.without or arm.name not in found or arm.without not in found:
        return None
    plain = found[arm.without].total
    return _PERCENT * (plain - found[arm.name].total) / plain


def spread(summary: Summary) -> float:
    """How far apart the rounds of an arm are, in percent of their median."""
    return _PERCENT * (max(summary.totals) - min(summary.totals)) / summary.total
