"""Reports GPU memory outside all limits: an event on the pod, or on the node for processes of no known pod.

Writes the messages; ``core.uncounted`` decides what to report.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import structlog

from gpushare.adapters.pids import command_of
from gpushare.contract import EVENT_NOT_HELD, EVENT_UNCOUNTED, PRELOAD
from gpushare.deviceplugin.core.allocations import Allocations
from gpushare.deviceplugin.core.conflicts import hiding_the_library, in_words
from gpushare.deviceplugin.core.uncounted import Reported, UncountedFinding, UncountedProcess, new_findings
from gpushare.deviceplugin.node.state import NodeState
from gpushare.isolation.layout import PRELOAD_TEXT
from gpushare.isolation.limits import parse
from gpushare.ports import KubeEvent, node_event, pod_event

log = structlog.get_logger()

_MIB: Final = 1024 * 1024
_MAX_LISTED: Final = 5
"""Number of processes in an event, to bound its length."""
_UNKNOWN_HINT: Final = (
    "The isolation library is not loaded into programs that are linked statically, use musl, bring their "
    "own C library or run in a container within theirs, and dlmopen bypasses it: link them dynamically on an "
    f"image with glibc, check that {PRELOAD} in the container has {PRELOAD_TEXT.strip()}, or give the pod a "
    "whole GPU"
)
_UNCOUNTED_HINT: Final = (
    "The program bypasses the isolation library, or the driver uses more memory than is counted: give the "
    "pod a whole GPU, or request more units"
)
_POD_HINT: Final = (
    "The pod was started before isolation on its node, is exempt from limits, or its program has left the "
    "root directory of its container: recreate the pod, or give it a whole GPU"
)
_NODE_HINT: Final = "They may use memory that is allocated to pods: end processes that should not run"


class UncountedReporter:
    """Reports for one node state. ``proc`` shows the host's processes; ``record_event`` receives events."""

    def __init__(
        self, node_state: NodeState, proc: Path, *, record_event: Callable[[KubeEvent], None]
    ) -> None:
        self._node_state = node_state
        self._proc = proc
        self._record_event = record_event
        self._reported = Reported()

    def report(self, found: Iterable[UncountedProcess]) -> None:
        """Report new findings among all uncounted processes; findings without a known pod stay new."""
        reported, fresh = new_findings(found, self._reported)
        sizes = dict(reported.reported)
        for finding, uncounted in fresh.items():
            largest = sorted(uncounted, key=lambda each: each.uncounted, reverse=True)[:_MAX_LISTED]
            commands = {each.pid: command_of(each.pid, self._proc) for each in largest}
            event = event_of(self._node_state.allocations, finding, uncounted, commands)
            if event:
                log.warning("not_held", about=event.name, reason=event.reason, text=event.text)
                self._record_event(event)
            else:
                del sizes[finding]
        self._reported = replace(reported, reported=sizes)


def event_of(
    allocations: Allocations,
    finding: UncountedFinding,
    uncounted: Sequence[UncountedProcess],
    commands: Mapping[int, str],
) -> KubeEvent | None:
    """The event for a finding; None if its pod is not known yet, or no longer.

    ``commands`` are the commands of processes by PID; only these processes are listed.
    """
    index = allocations.index_of(finding.uuid)
    gpu = finding.uuid if index is None else f"GPU {index}"
    listed = _listed(uncounted, commands)
    if finding.owner.directory:
        return _container_event(allocations, finding, gpu, listed, uncounted)
    uid, count = finding.owner.pod_uid, _count(uncounted)
    if gpu_pod := allocations.gpu_pods.get(uid):
        text = f"has {count} without a limit on {gpu}, beside limited containers: {listed}. {_POD_HINT}"
        return pod_event(gpu_pod.pod, EVENT_NOT_HELD, text, warning=True)
    if uid in allocations.by_pod:
        return None
    owner = f"of pod UID {uid}" if uid else "of no pod"
    text = f"{gpu} has {count} {owner} without a limit, beside limited containers: {listed}. {_NODE_HINT}"
    return node_event(allocations.node, EVENT_NOT_HELD, text)


def _container_event(
    allocations: Allocations,
    finding: UncountedFinding,
    gpu: str,
    listed: str,
    uncounted: Sequence[UncountedProcess],
) -> KubeEvent | None:
    every, directory = allocations.by_container.values(), finding.owner.directory
    allocation = next(
        (each for each in every if each.enforcement and each.enforcement.directory == directory), None
    )
    gpu_pod = allocations.gpu_pods.get(allocation.uid) if allocation else None
    if not (allocation and allocation.enforcement and gpu_pod):
        return None
    mib = sum(each.limit_mib for each in parse(allocation.enforcement.limit) if each.uuid == finding.uuid)
    container = f"container {allocation.container}, limited to {mib} MiB of {gpu},"
    if finding.known:
        size = sum(each.uncounted for each in uncounted) // _MIB
        text = f"{container} uses {size} MiB that isolation has not counted: {listed}. {_UNCOUNTED_HINT}"
        return pod_event(gpu_pod.pod, EVENT_UNCOUNTED, text, warning=True)
    hiding = hiding_the_library(gpu_pod, allocation.container)
    hint = f"The container {in_words(hiding)}" if hiding else _UNKNOWN_HINT
    text = f"{container} has {_count(uncounted)} unknown to isolation: {listed}. {hint}"
    return pod_event(gpu_pod.pod, EVENT_NOT_HELD, text, warning=True)


def _count(uncounted: Sequence[UncountedProcess]) -> str:
    return f"{len(uncounted)} process{'es' if len(uncounted) > 1 else ''}"


def _listed(uncounted: Sequence[UncountedProcess], commands: Mapping[int, str]) -> str:
    named = [_described(each, commands[each.pid]) for each in uncounted if each.pid in commands]
    more = len(uncounted) - len(named)
    return "; ".join([*named, *([f"and {more} more"] if more else [])])


def _described(uncounted_process: UncountedProcess, command: str) -> str:
    own = f", {uncounted_process.inner_pid} in its container" if uncounted_process.owner.directory else ""
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
