"""Keeps pods of a workload from nodes whose kubelet has just rejected others of it.

The controller of a workload replaces a rejected pod at once, and neither it nor kube-scheduler remembers the
rejection: the next pod would go to the same node, hundreds of times a minute. The cause of a first rejection
may be over in a moment. From the second on, a node is left out for a time that triples, and all nodes after
many. What a node has rejected is forgotten when it takes pods again (annotation ``gpushare.io/opened``).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from gpushare.model.objects import Pod
from gpushare.runtime.recent import RecentEvents

PERIOD_S: Final = 600.0
_FIRST_WAIT_S: Final = 15.0
_FACTOR: Final = 3
MOST: Final = 6
"""Rejections of a workload within the period after which no node gets its pods."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Until when the pods of a workload do not go to ``nodes``, or to any node if that is None.

    ``until_s`` is the first moment at which that changes, and ``text`` the last rejection.
    """

    nodes: frozenset[str] | None
    until_s: float
    text: str

    def excludes(self, node: str) -> bool:
        """Whether the node is left out."""
        return self.nodes is None or node in self.nodes


WaitOf = Callable[[Pod], Wait | None]


def no_wait(_: Pod) -> Wait | None:
    """For callers without a history."""
    return None


class RejectionBackoff:
    """The rejections of each workload. All times are seconds of one clock."""

    def __init__(self) -> None:
        self._on_node: RecentEvents[tuple[str, str]] = RecentEvents(PERIOD_S)
        self._last: dict[str, dict[str, str]] = {}

    def add(self, pod: Pod, at: float) -> None:
        """Add the rejection of a pod on its node."""
        node = pod.node or ""
        self._on_node.add((pod.workload, node), at)
        known = {key: nodes for key, nodes in self._last.items() if self._times(key, nodes, at)}
        others = {name: text for name, text in known.get(pod.workload, {}).items() if name != node}
        self._last = known | {pod.workload: {**others, node: pod.rejected or ""}}

    def forget(self, node: str) -> None:
        """Forget the rejections of a node: their cause may be over."""
        self._on_node.forget(lambda key: key[1] == node)
        left = {
            key: {name: text for name, text in of.items() if name != node} for key, of in self._last.items()
        }
        self._last = {key: nodes for key, nodes in left.items() if nodes}

    def wait_of(self, pod: Pod, now: float) -> Wait | None:
        """Which nodes the pod has to wait for; None if it has to wait for none."""
        rejections = self._last.get(pod.workload)
        if not rejections:
            return None
        ends = {node: self._end_s(pod.workload, node, now) for node in rejections}
        waiting = {node: end for node, end in ends.items() if end > now}
        times = self._times(pod.workload, rejections, now)
        if len(times) >= MOST:
            return Wait(None, times[-MOST] + PERIOD_S, _text(rejections))
        return Wait(frozenset(waiting), min(waiting.values()), _text(rejections)) if waiting else None

    def _times(self, workload: str, nodes: Iterable[str], now: float) -> list[float]:
        """When pods of a workload were rejected on these nodes, oldest first."""
        return sorted(at for node in nodes for at in self._on_node.times((workload, node), now))

    def _end_s(self, workload: str, node: str, now: float) -> float:
        """When the node is tried again; in the past if it need not wait."""
        times = self._on_node.times((workload, node), now)
        return times[-1] + _FIRST_WAIT_S * _FACTOR ** (len(times) - 2) if len(times) > 1 else now


def _text(rejections: dict[str, str]) -> str:
    node, text = list(rejections.items())[-1]
    return f"node {node}: {text}"
