"""Whose turn it is to edit a control plane: one node after the other, by name, and none after a failure.

Each pod of the installer's Job decides for itself, by the pods of the Job as the API server lists them. A
node is done when its pod has succeeded. Nothing expires: a pod that was killed half-way keeps the
others waiting until its restarted container is done. What does not belong here: asking the API server.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Final, NamedTuple

_FIRST_SIGNAL: Final = 128
"""Exit codes from here on say that a process was killed; 255, that nobody knows."""


class InstallerPod(NamedTuple):
    """A pod of an installer's Job.

    ``job`` is the Job's UID, ``node`` empty until the pod is scheduled, ``phase`` as the API has it.
    ``exit_code`` is that of the container's last end, None where it has not ended yet; ``message`` is what
    it said then.
    """

    name: str
    job: str
    node: str
    phase: str
    exit_code: int | None = None
    message: str = ""


class Step(Enum):
    """What a pod does next."""

    EDIT = "edit"
    WAIT = "wait"
    STOP = "stop"


class TurnDecision(NamedTuple):
    """``reason`` is empty with ``EDIT``."""

    step: Step
    reason: str = ""


def turn(pods: Sequence[InstallerPod], name: str, control_planes: int) -> TurnDecision:
    """What the pod of that name does next, given all pods of installers; ``control_planes`` are expected."""
    me = next((pod for pod in pods if pod.name == name), None)
    if me is None:
        return TurnDecision(Step.WAIT, f"pod {name} is not listed")
    ours = [pod for pod in pods if pod.job == me.job]
    failed = next((pod for pod in (me, *ours) if _has_failed(pod)), None)
    if failed:
        return TurnDecision(Step.STOP, _reason(failed, me))
    earlier = [pod for pod in pods if pod.job != me.job and pod.phase not in ("Succeeded", "Failed")]
    if earlier:
        return TurnDecision(Step.WAIT, f"pod {earlier[0].name} of an earlier Job has not ended")
    return _turn_among(ours, me, control_planes)


def _turn_among(pods: Sequence[InstallerPod], me: InstallerPod, control_planes: int) -> TurnDecision:
    nodes = sorted({pod.node for pod in pods if pod.node})
    listed = ", ".join(nodes)
    expected = f"{control_planes} control planes are expected, and pods of the Job are on {listed}"
    if len(nodes) > control_planes:
        return TurnDecision(Step.STOP, f"nothing was changed: {expected}")
    if len(nodes) < control_planes:
        return TurnDecision(Step.WAIT, f"{expected} only")
    done = {pod.node for pod in pods if pod.phase == "Succeeded"}
    first = next((node for node in nodes if node not in done), me.node)
    return (
        TurnDecision(Step.EDIT)
        if first == me.node
        else TurnDecision(Step.WAIT, f"control plane {first} comes first")
    )


def _reason(failed: InstallerPod, me: InstallerPod) -> str:
    """A pod that is started again after it failed says the same again."""
    message = failed.message or f"see the log of pod {failed.name}"
    if failed is me:
        return message
    return f"nothing was changed: control plane {failed.node} failed: {message}"


def _has_failed(pod: InstallerPod) -> bool:
    """Whether it gave up by itself; one that was killed starts again and finishes or restores."""
    return pod.exit_code is not None and 0 < pod.exit_code < _FIRST_SIGNAL
