"""The order in which control planes are edited: one node after the other, by name, none after a failure.

Each pod of the installer's Job decides for itself, from the pods of the Job in the API server. A node is done
when its pod has succeeded. Nothing expires: after a pod is killed, the others wait until its restarted
container is done. What does not belong here: requests to the API server.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Final, NamedTuple

_FIRST_SIGNAL: Final = 128
"""Exit codes from here on mean that a process was killed; 255 is unknown."""


class InstallerPod(NamedTuple):
    """A pod of an installer's Job.

    ``job`` is the Job's UID, ``node`` empty until the pod is scheduled, ``phase`` as the API has it.
    ``exit_code`` is that of the last termination of its container, None before the first; ``message`` is its
    termination message.
    """

    name: str
    job: str
    node: str
    phase: str
    exit_code: int | None = None
    message: str = ""


class Step(Enum):
    """The next step of a pod."""

    EDIT = "edit"
    WAIT = "wait"
    STOP = "stop"


class TurnDecision(NamedTuple):
    """``reason`` is empty with ``EDIT``."""

    step: Step
    reason: str = ""


def turn(pods: Sequence[InstallerPod], name: str, control_planes: int) -> TurnDecision:
    """The next step of the pod of that name, from the pods of all installer Jobs.

    ``control_planes`` is the expected number of pods of the Job.
    """
    me = next((pod for pod in pods if pod.name == name), None)
    if me is None:
        return TurnDecision(Step.WAIT, f"pod {name} is not listed")
    ours = [pod for pod in pods if pod.job == me.job]
    failed = next((pod for pod in (me, *ours) if _has_failed(pod)), None)
    if failed:
        return TurnDecision(Step.STOP, _reason(failed, me))
    earlier = [pod for pod in pods if pod.job != me.job and pod.phase not in ("Succeeded", "Failed")]
    if earlier:
        return TurnDecision(Step.WAIT, f"pod {earlier[0].name} of an earlier Job has not finished")
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
    """The message of the failed pod; a pod that is restarted after its failure repeats it."""
    message = failed.message or f"see the log of pod {failed.name}"
    if failed is me:
        return message
    return f"nothing was changed: control plane {failed.node} failed: {message}"


def _has_failed(pod: InstallerPod) -> bool:
    """Whether it exited with an error; a pod that was killed restarts and finishes or restores."""
    return pod.exit_code is not None and 0 < pod.exit_code < _FIRST_SIGNAL
