"""Reads the kubelet's pods during an Allocate call."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, NamedTuple

import structlog

from gpushare.adapters.kube.agent_resources import gpu_pods
from gpushare.adapters.kubelet.podresources import PodResources
from gpushare.adapters.kubelet.pods import KubeletAccess, fetch_pods
from gpushare.errors import GpuShareError, KubeletError
from gpushare.model.local_node import GpuPod
from gpushare.runtime.reasons import Reasons

log = structlog.get_logger()

_NAMES_S: Final = 1.0


class KubeletClient(NamedTuple):
    """``pods`` returns the GPU pods including static ones, None if unknown; it is None without access.

    ``names`` returns the full names of the pods that the kubelet has admitted so far, None if unknown.
    """

    pods: Callable[[], Awaitable[list[GpuPod] | None]] | None
    names: Callable[[], Awaitable[frozenset[str] | None]]


def kubelet_client(access: KubeletAccess | None, socket: Path) -> KubeletClient:
    """A client of the kubelet's HTTPS port, if there is access, and of its PodResources socket."""
    reasons = Reasons()

    async def pods() -> list[GpuPod] | None:
        try:
            found = gpu_pods(await fetch_pods(access)) if access else None
        except GpuShareError as error:
            if reasons.is_new(str(error), "pods"):
                log.warning("kubelet_not_read", reason=str(error))
            return None
        reasons.end("pods")
        return found

    async def names() -> frozenset[str] | None:
        try:
            found = await PodResources(socket, timeout_s=_NAMES_S).pods()
        except KubeletError as error:
            if reasons.is_new(str(error), "names"):
                log.info("kubelet_not_read", reason=str(error))
            return None
        reasons.end("names")
        return found

    return KubeletClient(pods if access else None, names)
