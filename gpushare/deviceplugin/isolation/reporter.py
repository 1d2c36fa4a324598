"""Tells of memory that no limit holds: an event on the pod, or on the node where no pod is known.

What belongs here: the words, and whom they are about. What does not: what is to be told (``strays``).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import structlog

from gpushare.adapters.pids import command_of
from gpushare.contract import EVENT_NOT_HELD, EVENT_UNCOUNTED
from gpushare.deviceplugin.core.allocations import Allocations
from gpushare.deviceplugin.core.uncounted import Finding, Reported, UncountedProcess, new_findings
from gpushare.deviceplugin.node.state import NodeState
from gpushare.isolation.limits import parse
from gpushare.ports import Event, node_event, pod_event

log = structlog.get_logger()

_MIB: Final = 1024 * 1024
_NAMED: Final = 5
"""As many processes an event names: the text has an end."""
_UNKNOWN: Final = (
    "The isolation library is not loaded into programs that are linked statically, made for musl or bring "
    "their own C library, and dlmopen goes past it: link them dynamically on an image with glibc, or give "
    "the pod a card of its own"
)
_UNCOUNTED: Final = (
    "The program goes past the isolation library, or the driver takes more than is counted: give the pod a "
    "card of its own, or ask for more units"
)
_POD: Final = (
    "The pod is older than isolation on its node, was not to be held, or its program has left its "
    "container's root: make the pod anew, or give it a card of its own"
)
_NODE: Final = "They may take what was given to others: end what nobody should have started"


class UncountedReporter:
    """Tells of one household. ``proc`` shows the host's processes, ``tell`` takes events."""

    def __init__(self, node_state: NodeState, proc: Path, *, tell: Callable[[Event], None]) -> None:
        self._node_state = node_state
        self._proc = proc
        self._tell = tell
        self._memory = Reported()

    def take(self, found: Iterable[UncountedProcess]) -> None:
        """All strays of one look at every held container. What nobody can be told yet stays news."""
        memory, fresh = new_findings(found, self._memory)
        told = dict(memory.reported)
        for fact, uncounted in fresh.items():
            largest = sorted(uncounted, key=lambda each: each.uncounted, reverse=True)[:_NAMED]
            commands = {each.pid: command_of(each.pid, self._proc) for each in largest}
            note = event_of(self._node_state.allocations, fact, uncounted, commands)
            if note:
                log.warning("not_held", about=note.name, reason=note.reason, text=note.text)
                self._tell(note)
            else:
                del told[fact]
        self._memory = replace(memory, reported=told)


def event_of(
    allocations: Allocations,
    fact: Finding,
    uncounted: Sequence[UncountedProcess],
    commands: Mapping[int, str],
) -> Event | None:
    """What is told of a fact; None where its pod is not known, yet or any more.

    ``commands`` are names of processes, by pid.
    """
    index = allocations.index_of(fact.uuid)
    card = fact.uuid if index is None else f"card {index}"
    listed = _listed(uncounted, commands)
    if fact.owner.place:
        return _container_note(allocations, fact, card, listed, uncounted)
    uid = fact.owner.pod_uid
    if gpu_pod := allocations.gpu_pods.get(uid):
        count = _count(uncounted)
        text = f"has {count} on {card}, beside held containers, that no limit holds: {listed}. {_POD}"
        return pod_event(gpu_pod.pod, EVENT_NOT_HELD, text, warning=True)
    if uid in allocations.by_pod:
        return None
    whose = f"of pod UID {uid}" if uid else "of no pod"
    count = _count(uncounted)
    text = f"{card} has {count} {whose}, beside held containers, that no limit holds: {listed}. {_NODE}"
    return node_event(allocations.node, EVENT_NOT_HELD, text)


def _container_note(
    allocations: Allocations, fact: Finding, card: str, listed: str, uncounted: Sequence[UncountedProcess]
) -> Event | None:
    grants = allocations.by_container.values()
    grant = next(
        (each for each in grants if each.enforcement and each.enforcement.place == fact.owner.place), None
    )
    gpu_pod = allocations.gpu_pods.get(grant.uid) if grant else None
    if not (grant and grant.enforcement and gpu_pod):
        return None
    mib = sum(each.limit_mib for each in parse(grant.enforcement.limit) if each.uuid == fact.uuid)
    container = f"container {grant.container}, held to {mib} MiB of {card},"
    if fact.known:
        size = sum(each.uncounted for each in uncounted) // _MIB
        text = f"{container} has {size} MiB more than isolation has counted: {listed}. {_UNCOUNTED}"
        return pod_event(gpu_pod.pod, EVENT_UNCOUNTED, text, warning=True)
    text = f"{container} has {_count(uncounted)} there that isolation does not know: {listed}. {_UNKNOWN}"
    return pod_event(gpu_pod.pod, EVENT_NOT_HELD, text, warning=True)


def _count(uncounted: Sequence[UncountedProcess]) -> str:
    return f"{len(uncounted)} process{'es' if len(uncounted) > 1 else ''}"


def _listed(uncounted: Sequence[UncountedProcess], commands: Mapping[int, str]) -> str:
    named = [_described(each, commands[each.pid]) for each in uncounted if each.pid in commands]
    more = len(uncounted) - len(named)
    return "; ".join([*named, *([f"and {more} more"] if more else [])])


def _described(uncounted_process: UncountedProcess, command: str) -> str:
    own = f", {uncounted_process.inner_pid} in its container" if uncounted_process.owner.place else ""
    size = (
        "of unknown size"
        if uncounted_process.driver_bytes is None
        else f"{uncounted_process.driver_bytes // _MIB} MiB"
    )
    counted = (
        ""
        if uncounted_process.counted is None
        else f", of which {uncounted_process.counted // _MIB} MiB are counted"
    )
    return f"pid {uncounted_process.pid} ({command}{own}) {size}{counted}"
