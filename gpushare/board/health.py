"""The state of the control plane and of the GPUs in sentences, the control plane first. Pure.

Each sentence has the command that tells more. What does not belong here: the checks of ``doctor``, which
reads the metrics of every service.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gpushare.contract import AGENT_NAME, EXTENDER_NAME, RESOURCE_MEM, SYSTEM_NAMESPACE
from gpushare.overview.objects import ClusterNode
from gpushare.overview.system_pods import Lease, SystemPod
from gpushare.overview.words import counted, listed
from gpushare.runtime.times import seconds_of

DOCTOR: Final = "kubectl gpushare doctor"
_LATE: Final = 2
"""A holder renews several times in the duration of its Lease; clocks may differ by as much again."""
_MOST_PROBLEMS: Final = 5
_ALONE: Final = "--allow-without-lease"


class Level(StrEnum):
    """How much a sentence matters. ``UNKNOWN`` is for what could not be read."""

    FAILED = "failed"
    WARNING = "warning"
    UNKNOWN = "unknown"
    OK = "ok"


@dataclass(frozen=True, slots=True)
class Statement:
    """One sentence, the command that helps, and what it sums up."""

    level: Level
    text: str
    command: str = ""
    details: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """Extenders and agents in kube-system, and the extender's Lease, None without one.

    ``unread`` is the refusal of the API server if the account may not get the Lease.
    """

    pods: tuple[SystemPod, ...] = ()
    lease: Lease | None = None
    unread: str = ""

    def of(self, component: str) -> list[SystemPod]:
        """The pods of a component."""
        return [pod for pod in self.pods if pod.component == component]


@dataclass(frozen=True, slots=True)
class Faults:
    """What is wrong with GPUs and nodes, as names. ``silent`` are nodes whose exporter did not answer.

    ``measured`` is the number of the other nodes, None before the exporters were read; ``reported`` is what
    was said of the silent ones.
    """

    over_committed: Sequence[str] = ()
    unhealthy: Sequence[str] = ()
    unplaced: Sequence[str] = ()
    unready: Sequence[str] = ()
    silent: Sequence[str] = ()
    measured: int | None = None
    reported: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def statements(
    plane: ControlPlane | None, nodes: Sequence[ClusterNode], faults: Faults, now: float
) -> list[Statement]:
    """The state of the cluster. ``plane`` is None before it was read."""
    control = [] if plane is None else [*_extender(plane, now), *_agents(plane, nodes)]
    control += _exporters(faults)
    return [*(control or _fine(plane, faults)), *_of_gpus(faults)]


def _extender(plane: ControlPlane, now: float) -> Iterator[Statement]:
    """An extender without a pod, on a host, is known by its Lease only."""
    found = plane.of(EXTENDER_NAME)
    waiting = [pod.name for pod in found if not pod.ready]
    leaderless = _without_leader(plane.lease, now)
    if not found and leaderless:
        text = f"No extender runs in {SYSTEM_NAMESPACE}: nothing places pods by the free memory of each GPU."
        yield Statement(Level.FAILED, text, DOCTOR)
    elif found and len(waiting) == len(found):
        text = f"No extender is ready, so no pod gets a GPU: {listed(waiting)}."
        yield Statement(Level.FAILED, text, DOCTOR)
    elif waiting:
        text = f"{len(waiting)} of {len(found)} extenders {_is(waiting)} not ready: {listed(waiting)}."
        yield Statement(Level.WARNING, text, DOCTOR)
    if plane.unread:
        why = f"this account may not get its Lease in {SYSTEM_NAMESPACE}"
        text = f"Whether an extender leads is not known: {why}."
        yield Statement(Level.UNKNOWN, text, DOCTOR, (plane.unread,))
    elif leaderless and len(waiting) < len(found) and not _needs_no_lease(found):
        yield Statement(Level.FAILED, f"No extender leads, so no pod is bound: {leaderless}.", DOCTOR)


def _needs_no_lease(extenders: Iterable[SystemPod]) -> bool:
    return any(_ALONE in each.words for pod in extenders for each in pod.spec.containers)


def _without_leader(lease: Lease | None, now: float) -> str:
    """Why no extender leads; empty if one does."""
    if lease is None:
        return f"there is no Lease {EXTENDER_NAME}"
    spec = lease.spec
    if not spec.holder_identity:
        return "none holds the Lease"
    renewed = seconds_of(spec.renew_time or "")
    if renewed is None:
        return f"the Lease has no time of renewal: {spec.renew_time!r}"
    age = now - renewed
    late = age > _LATE * (spec.lease_duration_seconds or 0)
    return f"{spec.holder_identity} has not renewed the Lease for {age:.0f} s" if late else ""


def _agents(plane: ControlPlane, nodes: Sequence[ClusterNode]) -> Iterator[Statement]:
    """Nodes that are not ready have a sentence of their own."""
    ready = {pod.spec.node_name for pod in plane.of(AGENT_NAME) if pod.ready}
    shared = [node for node in nodes if node.capacity(RESOURCE_MEM)]
    missing = sorted(node.name for node in shared if node.ready and node.name not in ready)
    if missing:
        where = f"{counted(len(missing), 'node')}, which start no pods with a GPU: {listed(missing)}"
        text = f"The node agent is not ready on {where}."
        yield Statement(Level.FAILED, text, f"{DOCTOR} --node {missing[0]}")


def _exporters(faults: Faults) -> Iterator[Statement]:
    if faults.silent and faults.measured == 0:
        text = f"No exporter answers, so there is no usage of {counted(len(faults.silent), 'node')}."
        yield Statement(Level.WARNING, text, DOCTOR, faults.reported)
    elif faults.silent:
        text = (
            f"The exporter does not answer on {counted(len(faults.silent), 'node')}: {listed(faults.silent)}."
        )
        command = f"{DOCTOR} --node {faults.silent[0]}"
        yield Statement(Level.WARNING, text, command, faults.reported)
    else:
        yield from (Statement(Level.WARNING, sentence(text), DOCTOR) for text in faults.reported)


def _fine(plane: ControlPlane | None, faults: Faults) -> Iterator[Statement]:
    if plane is None:
        return
    extenders, agents = len(plane.of(EXTENDER_NAME)), len(plane.of(AGENT_NAME))
    holder = plane.lease.spec.holder_identity if plane.lease else None
    leads = f"{holder} leads" if holder and extenders != 1 else ""
    ready = f"{counted(extenders, 'extender')} ready" if extenders else ""
    parts = [", ".join(filter(None, (ready, leads))), f"{counted(agents, 'node agent')} ready"]
    if faults.measured is not None:
        parts.append(f"usage from {counted(faults.measured, 'node')}")
    yield Statement(Level.OK, f"The control plane works: {'; '.join(parts)}.")


def _of_gpus(faults: Faults) -> Iterator[Statement]:
    if names := faults.over_committed:
        text = f"{counted(len(names), 'GPU')} {_is(names)} over-committed: {listed(names)}."
        yield Statement(Level.FAILED, text, _about(names))
    if names := faults.unhealthy:
        text = f"{counted(len(names), 'GPU')} {_is(names)} unhealthy: {listed(names)}."
        yield Statement(Level.FAILED, text, _about(names))
    if names := faults.unready:
        text = f"{counted(len(names), 'node')} {_is(names)} not ready: {listed(names)}."
        yield Statement(Level.FAILED, text, f"kubectl describe node {names[0]}")
    if names := faults.unplaced:
        text = (
            f"The GPU of {counted(len(names), 'pod')} is not known, so all GPUs of the node count as taken: "
        )
        yield Statement(Level.WARNING, f"{text}{listed(names)}.", DOCTOR)
    yield from _summed(faults.unreadable)
    yield from (Statement(Level.UNKNOWN, sentence(text), DOCTOR) for text in faults.notes)


def _summed(texts: Sequence[str]) -> Iterator[Statement]:
    """A sentence each, or one for many."""
    if len(texts) > _MOST_PROBLEMS:
        yield Statement(Level.WARNING, f"{len(texts):,} problems with nodes and pods.", DOCTOR, tuple(texts))
    else:
        yield from (Statement(Level.WARNING, sentence(text), DOCTOR) for text in texts)


def _about(gpus: Sequence[str]) -> str:
    """The command for the node of the first GPU."""
    return f"{DOCTOR} --node {gpus[0].partition(' ')[0]}"


def _is(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def sentence(text: str) -> str:
    """With a capital letter and a full stop."""
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."
