"""Why a pod has no limits, from the pod and the labels of its node. Pure."""

from collections.abc import Mapping

from gpushare.contract import LABEL_MODE, LABEL_NO_ISOLATION, RESOURCE_MEM
from gpushare.model.modes import LIMITING, Mode, mode_of
from gpushare.model.objects import Pod


def why_not(pod: Pod, labels: Mapping[str, str] | None) -> str | None:
    """Why a pod has no limits; None if it should have some.

    ``labels`` are those of its node, None until the pod is bound.
    """
    if not pod.managed:
        return f"it does not request {RESOURCE_MEM}"
    if pod.finished:
        return "it has finished"
    if pod.node is None or labels is None:
        return "it is not bound to a node"
    return _why_not_on(pod.node, labels)


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
