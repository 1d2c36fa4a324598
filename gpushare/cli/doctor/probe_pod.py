"""The pod of ``doctor --probe``: its manifest, and what its status and its container report. Pure.

The container writes what it sees to its termination message, which is part of the status: reading it needs no
right to logs. Its script uses built-in commands of the shell only.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from gpushare.contract import (
    CORE_STEP,
    ENV_CONTAINER,
    ENV_IDX,
    ENV_MPS_MEMORY,
    ISOLATION_INSIDE,
    PRELOAD,
    RESOURCE_CORE,
    RESOURCE_MEM,
)
from gpushare.isolation.layout import LIMIT, PRELOAD_TEXT
from gpushare.overview.objects import ClusterPod, Reason

UNITS: Final = 1
USER: Final = 65_534
"""The UID without rights. On nodes of mode mps, a GPU may serve one user only."""
_SCRIPT: Final = f"""exec > /dev/termination-log
echo "units=${ENV_CONTAINER}"
echo "gpu=${ENV_IDX}"
echo "mps=${ENV_MPS_MEMORY}"
[ -e {ISOLATION_INSIDE}/{LIMIT} ] && [ -e {PRELOAD} ] && read -r loaded < {PRELOAD} \\
  && [ "$loaded" = "{PRELOAD_TEXT.strip()}" ] && echo "limit=yes"
for device in /dev/nvidia[0-9]* /dev/dxg; do [ -e "$device" ] && echo "device=$device"; done
exit 0"""


@dataclass(frozen=True, slots=True)
class ProbeRequest:
    """What the user wants to probe. ``core`` is whether the node takes only pods with a compute share."""

    namespace: str
    name: str
    image: str
    node: str | None
    core: bool
    timeout_s: int

    @property
    def full_name(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def wish(self) -> str:
        """Units and node in words."""
        where = f" on node {self.node}" if self.node else ""
        core = f" and {CORE_STEP} of {RESOURCE_CORE}" if self.core else ""
        return f"{UNITS} of {RESOURCE_MEM}{core}{where}"

    @property
    def announcement(self) -> str:
        """What is about to be created, for its user."""
        return (
            f"Creating pod {self.full_name} with image {self.image}, which asks for {self.wish}. It is "
            f"removed after at most {self.timeout_s} s."
        )


def manifest(request: ProbeRequest) -> dict[str, Any]:
    """A pod that the Pod Security Standard ``restricted`` admits, and that ends by itself."""
    shares = {RESOURCE_MEM: str(UNITS)} | ({RESOURCE_CORE: str(CORE_STEP)} if request.core else {})
    container = {
        "name": "probe",
        "image": request.image,
        "command": ["sh", "-c", _SCRIPT],
        "resources": {
            "requests": {"cpu": "10m", "memory": "16Mi"},
            "limits": {"cpu": "100m", "memory": "64Mi", **shares},
        },
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    spec = {
        "restartPolicy": "Never",
        "activeDeadlineSeconds": 2 * request.timeout_s,
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "tolerations": [{"operator": "Exists"}],
        "containers": [container],
        **({"affinity": _only(request.node)} if request.node else {}),
    }
    metadata = {"name": request.name, "labels": {"app.kubernetes.io/name": "gpushare-probe"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _only(node: str) -> dict[str, Any]:
    """The affinity to one node. ``nodeName`` would bypass the scheduler."""
    field_ = {"key": "metadata.name", "operator": "In", "values": [node]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field_]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


class ProbePod(ClusterPod):
    """The pod as the API server shows it."""

    @property
    def admitted(self) -> bool:
        """Whether the kubelet has admitted it, for which it needs the answer of Allocate."""
        return bool(self.status.container_statuses)

    @property
    def refused(self) -> bool:
        """Whether the kubelet has refused it; it may add the status of a container that never ran."""
        rejected = (self.status.reason or "").startswith(("UnexpectedAdmissionError", "OutOf"))
        return self.status.phase == "Failed" and (rejected or not self.admitted)

    @property
    def held_up(self) -> Reason | None:
        """Why its container does not run."""
        return next((each.state.waiting for each in self.status.container_statuses or ()), None)

    @property
    def terminated(self) -> Reason | None:
        """How its container has ended."""
        return next((each.state.terminated for each in self.status.container_statuses or ()), None)


@dataclass(frozen=True, slots=True)
class Seen:
    """What the container has seen."""

    units: str
    gpu: str
    limited: bool
    devices: tuple[str, ...]


def seen_by(message: str) -> Seen:
    """Reads the termination message of the script."""
    pairs = [line.partition("=")[::2] for line in message.splitlines()]
    values: Mapping[str, str] = dict(pairs)
    return Seen(
        units=values.get("units", ""),
        gpu=values.get("gpu", ""),
        limited="limit" in values or bool(values.get("mps")),
        devices=tuple(value for key, value in pairs if key == "device"),
    )
