"""The page of results, as Markdown. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from tests.bench.models.arms import Arm
from tests.bench.models.results import Run, Summary, cost, failures, kept, quantile, spread, summaries

LARGEST_COST: Final = 1.0
LEAST_KEPT: Final = 88.0
LARGEST_DEVIATION: Final = 5.0
"""The goals: percent of the tokens, of the dedicated server, and points of a share."""


class Conditions(NamedTuple):
    """What a page states beside results.

    ``machine`` has command, commit, date, processor and load (``tests.support.machine``).
    """

    machine: str
    gpu: str
    driver: str
    cuda: str
    torch: str
    model: str
    parameters: int
    slots: int
    seed: int


def page(conditions: Conditions, runs: Sequence[Run], arms: Sequence[Arm]) -> str:
    """The results of these runs; ``arms`` were to run."""
    found = summaries(runs)
    tables = (_arm_rows(found, failures(runs), arms), _goal_rows(found, arms))
    return "\n\n".join((*_conditions(conditions, runs), *("\n".join(rows) for rows in tables))) + "\n"


def _conditions(facts: Conditions, runs: Sequence[Run]) -> Iterator[str]:
    yield facts.machine
    yield f"{facts.gpu}, driver {facts.driver}, CUDA {facts.cuda}, PyTorch {facts.torch}"
    rounds = len({run.number for run in runs})
    yield (
        f"{facts.model} with random weights ({facts.parameters / 1e9:.1f} billion parameters), closed loop "
        f"of {facts.slots} clients for each server, trace {facts.seed}; rounds: {rounds}, of which medians"
    )


def _arm_rows(found: Mapping[str, Summary], failed: Mapping[str, str], arms: Sequence[Arm]) -> Iterator[str]:
    yield "| arm | tokens/s | each round | of dedicated | part of each | TTFT p50 | TTFT p99 | requests |"
    yield "|---|---|---|---|---|---|---|---|"
    for arm in arms:
        if arm.name in found:
            yield _arm_row(found, found[arm.name])
        if arm.name in failed:
            yield _row(arm.name, f"failed: {_cell(failed[arm.name])}", *[""] * 6)
        elif arm.name not in found:
            yield _row(arm.name, "not run: no time was left", *[""] * 6)


def _arm_row(found: Mapping[str, Summary], summary: Summary) -> str:
    percent = kept(found, summary.arm.name)
    return _row(
        summary.arm.name,
        f"{summary.total:.1f}",
        ", ".join(f"{total:.1f}" for total in summary.totals),
        "" if percent is None else f"{percent:.1f} %",
        " and ".join(f"{part:.1f} %" for part in summary.parts),
        _times(summary, 0.5),
        _times(summary, 0.99),
        " and ".join(str(len(firsts)) for firsts in summary.firsts_s),
    )


def _times(summary: Summary, part: float) -> str:
    return " and ".join(f"{1000 * quantile(firsts, part):.0f} ms" for firsts in summary.firsts_s)


def _goal_rows(found: Mapping[str, Summary], arms: Iterable[Arm]) -> Iterator[str]:
    yield "| what | result | goal | met |"
    yield "|---|---|---|---|"
    for arm in arms:
        yield from _cost_row(found, arm)
    yield from _kept_row(found)
    for arm in arms:
        if arm.name in found and arm.limited and arm.shares:
            yield _share_row(found[arm.name])


def _cost_row(found: Mapping[str, Summary], arm: Arm) -> Iterator[str]:
    percent = cost(found, arm)
    if percent is not None:
        yield _row(
            f"{arm.name}, compared with {arm.without}",
            f"{0.0 - percent:+.2f} % tokens/s; {_noise(found[arm.name], found[arm.without])}",
            f"at most {LARGEST_COST:g} % fewer",
            _met(percent <= LARGEST_COST),
        )


def _noise(*compared: Summary) -> str:
    if any(len(each.totals) == 1 for each in compared):
        return "a single round, so the noise is unknown"
    return f"rounds of one arm differ by up to {max(map(spread, compared)):.2f} %"


def _kept_row(found: Mapping[str, Summary]) -> Iterator[str]:
    """The best of our arms with two servers."""
    ours = {
        name: percent
        for name, summary in found.items()
        if summary.arm.limited and summary.arm.servers > 1 and (percent := kept(found, name)) is not None
    }
    if ours:
        best = max(ours, key=lambda name: ours[name])
        goal = f"{LEAST_KEPT:g} % of dedicated"
        yield _row(f"best arm: {best}", f"{ours[best]:.1f} %", goal, _met(ours[best] >= LEAST_KEPT))


def _share_row(summary: Summary) -> str:
    """The largest deviation of a part from its share."""
    arm = summary.arm
    off = max(abs(part - arm.share(server)) for server, part in enumerate(summary.parts))
    goal = f"within {LARGEST_DEVIATION:g} points"
    return _row(
        f"parts of the work, {arm.name}", f"{off:.1f} points off", goal, _met(off <= LARGEST_DEVIATION)
    )


def _met(reached: object) -> str:
    return "yes" if reached else "no"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(text: str) -> str:
    """Any text in one cell."""
    return " ".join(text.split()).replace("|", "\\|")
