"""Why a pod has no limits, from the pod and the labels of its node. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from gpushare.contract import LABEL_MODE, LABEL_NO_ISOLATION, RESOURCE_MEM
from gpushare.model.modes import LIMITING, Mode, mode_of


@dataclass(frozen=True, slots=True)
class NamedPod:
    """A pod by name; ``requests_units`` is whether it requests GPU memory, ``node`` is empty until bound."""

    namespace: str
    name: str
    node: str
    requests_units: bool
    finished: bool

    @property
    def full_name(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


def why_not(pod: NamedPod, labels: Mapping[str, str] | None) -> str | None:
    """Why a pod has no limits, from the pod and the labels of its node; None if it should have limits.

    ``labels`` are those of its node, None until the pod is bound.
    """
    if not pod.requests_units:
        return f"it does not request {RESOURCE_MEM}"
    if pod.finished:
        return "it has finished"
    return "it is not bound to a node" if labels is None else _why_not_on(pod.node, labels)


def _why_not_on(node: str, labels: Mapping[str, str]) -> str | None:
    mode, not_sharing = mode_of(labels)
    if not_sharing:
        return f"node {node}: {not_sharing}"
    if labels.get(LABEL_NO_ISOLATION) == "true":
        return f"isolation is disabled on node {node} by its label {LABEL_NO_ISOLATION}=true"
    if mode not in LIMITING:
        advice = f"{LABEL_MODE}={Mode.CGPU} limits new pods"
        return f"node {node} shares without isolation: its mode is {mode}; {advice}"
    return None
