"""On which nodes pods may run, and how many of them are replaced at a time. Part of ``components.config``."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gpushare.kubescheduler.config import KubernetesVersion

_CONTROL_PLANE: Final = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
"""Labels and taint keys of control plane nodes: the current and the older one."""
_ONE_LABEL: Final = KubernetesVersion(1, 25)
"""kubeadm 1.24 removes the older label; the API server warns of it."""
_UNINITIALIZED: Final = "node.cloudprovider.kubernetes.io/uninitialized"
NODE_CRITICAL: Final = "system-node-critical"
CLUSTER_CRITICAL: Final = "system-cluster-critical"
MAX_UNAVAILABLE: Final = "10%"


def control_plane_labels(version: KubernetesVersion) -> tuple[str, ...]:
    """The labels of control plane nodes, of which a node has at least one."""
    return _CONTROL_PLANE[:1] if version >= _ONE_LABEL else _CONTROL_PLANE


class Operator(StrEnum):
    """How a toleration compares with a taint."""

    EQUAL = "Equal"
    EXISTS = "Exists"


class Effect(StrEnum):
    """What a taint does to pods that do not tolerate it."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


@dataclass(frozen=True, slots=True)
class Toleration:
    """A toleration of pods, as in Kubernetes."""

    key: str = ""
    """Key of the taint; with operator ``Exists``, every key if it is empty."""
    operator: Operator = Operator.EQUAL
    """``Equal``: a taint with this value. ``Exists``: with any value."""
    value: str = ""
    """Value of the taint; only with ``Equal``."""
    effect: Effect | None = None
    """Effect of the taint; default: every effect."""


EVERY_TAINT: Final = (Toleration(operator=Operator.EXISTS),)
CONTROL_PLANE_TAINTS: Final = tuple(
    Toleration(key, Operator.EXISTS, effect=Effect.NO_SCHEDULE) for key in (*_CONTROL_PLANE, _UNINITIALIZED)
)
"""Taints of control plane nodes, also while they are initialized."""
