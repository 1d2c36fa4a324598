"""Reads the extenders, the node agents and the extender's Lease from kube-system."""

from http import HTTPStatus
from typing import Final

from gpushare.adapters.kube.client import KubeClient
from gpushare.board.health import ControlPlane
from gpushare.contract import AGENT_NAME, EXTENDER_NAME, SYSTEM_NAMESPACE
from gpushare.errors import ApiError
from gpushare.overview.lists import decoded, listed, pods_path
from gpushare.overview.system_pods import Lease, SystemPod

_PODS: Final = pods_path(SYSTEM_NAMESPACE)
_OURS: Final = f"component in ({EXTENDER_NAME},{AGENT_NAME})"
_LEASE: Final = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM_NAMESPACE}/leases/{EXTENDER_NAME}"
_TIMEOUT_S: Final = 10.0


async def collect_control_plane(client: KubeClient) -> ControlPlane:
    """The control plane now. Raises ApiError."""
    raws = await listed(client, _PODS, {"labelSelector": _OURS})
    pods = tuple(decoded(raws, SystemPod, _PODS))
    try:
        body = await client.request("GET", _LEASE, timeout_s=_TIMEOUT_S)
    except ApiError as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return ControlPlane(pods)
        if error.status != HTTPStatus.FORBIDDEN:
            raise
        return ControlPlane(pods, unread=str(error))
    return ControlPlane(pods, decoded([body], Lease, _LEASE)[0])
