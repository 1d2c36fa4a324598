"""The state of a pod in one word, as ``kubectl get pods`` shows it. Pure.

The rules are those of ``printPod`` in Kubernetes (``pkg/printers/internalversion/printers.go``, 1.36).
"""

from typing import Final

from gpushare.overview.objects import ClusterPod, ContainerStatus, Reason

_GATED: Final = "SchedulingGated"
_INITIALIZING: Final = "PodInitializing"


def state_of(pod: ClusterPod) -> str:
    """Such as ``Running``, ``Init:ErrImagePull``, ``Completed`` or ``Terminating``."""
    if pod.metadata.deletion_timestamp:
        return "Unknown" if pod.status.reason == "NodeLost" else "Terminating"
    return _initializing(pod) or _running(pod) or pod.status.reason or _gated(pod) or pod.status.phase


def runs(phase: str | None, state: str | None) -> bool:
    """Whether the containers of a pod run, also while it is being deleted."""
    return phase == "Running" and state in ("Running", "Terminating")


def _gated(pod: ClusterPod) -> str:
    conditions = pod.status.conditions or ()
    gated = any(each.type == "PodScheduled" and each.reason == _GATED for each in conditions)
    return _GATED if gated else ""


def _initializing(pod: ClusterPod) -> str:
    """What the first init container that has not ended does; "" if all have, or none has a status."""
    specs = pod.spec.init_containers or ()
    sidecars = {each.name for each in specs if each.restart_policy == "Always"}
    for number, status in enumerate(pod.status.init_container_statuses or ()):
        waiting, ended = status.state.waiting, status.state.terminated
        if (ended and ended.exit_code == 0) or (status.name in sidecars and not (waiting or ended)):
            continue
        if ended:
            return f"Init:{_end(ended)}"
        if waiting and waiting.reason not in ("", _INITIALIZING):
            return f"Init:{waiting.reason}"
        return f"Init:{number}/{len(specs)}"
    return ""


def _running(pod: ClusterPod) -> str:
    """The state of the first container that does not run; "" if all do."""
    statuses = pod.status.container_statuses or ()
    found = next(filter(None, map(_stopped, statuses)), "")
    runs = any(not (each.state.waiting or each.state.terminated) for each in statuses)
    return "Running" if found == "Completed" and runs else found


def _stopped(status: ContainerStatus) -> str:
    if status.state.waiting and status.state.waiting.reason:
        return status.state.waiting.reason
    return _end(status.state.terminated) if status.state.terminated else ""


def _end(reason: Reason) -> str:
    return reason.reason or f"ExitCode:{reason.exit_code}"
