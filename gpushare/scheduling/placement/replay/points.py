"""The scores that kube-scheduler gets from the losses of nodes."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from gpushare.contract import MAX_EXTENDER_SCORE
from gpushare.scheduling.placement.replay.policy import TIE
from gpushare.scheduling.placement.replay.value import MILLI, UNFIT, WORTH

Place = tuple[int, str]
"""The number of GPUs of a node, and its name: the fixed order of nodes."""
_AS_GOOD: Final = 2
_NEARLY: Final = 1
"""So low that kube-scheduler's own scores do not outvote the choice, with the default weight."""
_ONE_GPU: Final = MILLI * WORTH


def points(
    names: Sequence[str],
    losses: Sequence[int],
    places: Mapping[str, Place],
    unlisted: Collection[str] = (),
) -> dict[str, int] | None:
    """The scores from 0 to 10 by node; None if replay fits the pod on no node.

    The first of the best nodes has 10, nodes as good 2, and nodes that lose at most one GPU more 1. Nodes
    without GPUs are all equal. ``unlisted`` are nodes that come last, whatever they lose.
    """
    found = list(zip(names, losses, strict=True))
    if unlisted:
        found = [(name, loss) for name, loss in found if name not in unlisted]
    least = min((loss for _, loss in found), default=UNFIT)
    best, enough = least + TIE, least + _ONE_GPU
    # A node that has just been deleted has no place.
    tied = [name for name, loss in found if loss <= best and name in places]
    if least == UNFIT or not tied:
        return None
    scores = dict.fromkeys(names, 0)
    scores |= {name: _NEARLY for name, loss in found if loss <= enough}
    scores |= dict.fromkeys(tied, _AS_GOOD)
    first = min(tied, key=places.__getitem__)
    winners = [first] if places[first][0] else [name for name in tied if not places[name][0]]
    scores |= dict.fromkeys(winners, MAX_EXTENDER_SCORE)
    return scores
