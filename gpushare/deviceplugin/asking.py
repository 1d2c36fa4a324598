"""What the kubelet is asked about its pods while it waits for an Allocate.

It answers meanwhile: no lock of its is held around a call to a device plugin. An answer that does not
come is no answer, and nobody waits long for it.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, NamedTuple

import structlog

from gpushare.adapters.kube.agent_resources import tenants_of
from gpushare.adapters.kubelet.podresources import PodResources
from gpushare.adapters.kubelet.pods import KubeletAccess, fetch_pods
from gpushare.errors import GpuShareError, KubeletError
from gpushare.model.tenants import Tenant

log = structlog.get_logger()

_NAMES_S: Final = 1.0


class Kubelet(NamedTuple):
    """``pods`` gives its pods as tenants, static ones too; None where it is not to be asked.

    ``names`` gives the full names of the pods that it has taken in so far, None where it does not tell.
    """

    pods: Callable[[], Awaitable[list[Tenant]]] | None
    names: Callable[[], Awaitable[frozenset[str] | None]]


def kubelet_at(access: KubeletAccess | None, socket: Path) -> Kubelet:
    """The kubelet behind its HTTPS port, where there is access, and behind its socket of PodResources."""

    async def pods() -> list[Tenant]:
        try:
            return tenants_of(await fetch_pods(access)) if access else []
        except GpuShareError as error:
            log.warning("kubelet_not_asked", reason=str(error))
            return []

    async def names() -> frozenset[str] | None:
        try:
            return await PodResources(socket, timeout_s=_NAMES_S).pods()
        except KubeletError as error:
            log.info("kubelet_not_asked", reason=str(error))
            return None

    return Kubelet(pods if access else None, names)
