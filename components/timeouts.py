"""How long the engine waits for a DaemonSet. Pure.

From 4.12 on, Pulumi's Kubernetes provider waits until all pods of a DaemonSet are replaced and ready, by
default for 10 minutes, and fails after that.
"""

from math import ceil
from typing import Final

from components.manifests.parts import Object

DEFAULT_NODES: Final = 100
"""Assumed if the cluster has not been asked."""
_BASE_S: Final = 600
_STEP_S: Final = 180
"""To stop the pods of some nodes, pull an image of 80 MB, and start them until they are ready."""


def rollout_s(manifest: Object, nodes: int) -> int | None:
    """Seconds for a rolling update of a DaemonSet on all of ``nodes``; None for other objects."""
    update = manifest.get("spec", {}).get("updateStrategy", {}).get("rollingUpdate")
    if manifest["kind"] != "DaemonSet" or not update:
        return None
    return _BASE_S + ceil(nodes / _at_once(update["maxUnavailable"], nodes)) * _STEP_S


def _at_once(max_unavailable: int | str, nodes: int) -> int:
    """Kubernetes rounds a percentage up."""
    if isinstance(max_unavailable, int):
        return max_unavailable
    return max(1, ceil(nodes * int(max_unavailable.removesuffix("%")) / 100))
