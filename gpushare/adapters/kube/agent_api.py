"""API requests of the node agent: patches of its node and its pods.

The permissions of the Aliyun plugin's manifest are enough: the kubelet's credentials, which may write only
status subresources.
"""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

import msgspec
import structlog

from gpushare.adapters.kube.client import KubeClient
from gpushare.adapters.kube.decoding import decode
from gpushare.adapters.kube.events import write_event
from gpushare.adapters.kube.wire import Bare, ListPage
from gpushare.contract import AGENT_NAME, SYSTEM_NAMESPACE, UNHEALTHY_KEY, UNHEALTHY_PREFIX
from gpushare.errors import ApiError
from gpushare.model.objects import Pod
from gpushare.ports import KubeEvent

log = structlog.get_logger()

_TIMEOUT_S: Final = 5.0
_LIST_TIMEOUT_S: Final = 15.0
_PAGE_SIZE: Final = 1000
_STATUS: Final = "/status"
_NODES: Final = "/api/v1/nodes"
_CONFIGMAPS: Final = f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/configmaps"
_WRONG_UID: Final = "metadata.uid"

_NAMES = msgspec.json.Decoder(ListPage[Bare])


class KubeAgentApi:
    """Implements ``gpushare.deviceplugin.api.writer.AgentApi`` for the node of that name.

    ``identity`` names this agent.
    """

    def __init__(self, client: KubeClient, *, node: str, identity: str) -> None:
        self._client = client
        self._node = node
        self._identity = identity
        self._pods_part = _STATUS

    async def patch_node(self, patch: Mapping[str, Any]) -> None:
        """PATCH ``nodes/status``, which also accepts metadata in the same write."""
        await self._patch(f"{_NODES}/{self._node}/status", patch)

    async def remove_taints(self, operations: Sequence[Mapping[str, Any]]) -> None:
        """PATCH the node itself with a JSON patch: no subresource accepts taints."""
        await self._client.request(
            "PATCH", f"{_NODES}/{self._node}", timeout_s=_TIMEOUT_S, body=list(operations)
        )

    async def patch_pod(self, pod: Pod, annotations: Mapping[str, str | None]) -> None:
        """PATCH the status of the pod, which also accepts metadata, or the pod if only that is allowed."""
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"
        body = {"metadata": {"uid": pod.uid, "annotations": dict(annotations)}}
        try:
            await self._patch_pod(path + self._pods_part, body)
        except ApiError as error:
            if error.status != HTTPStatus.FORBIDDEN:
                raise
            await self._patch_other_part(path, body, error)

    async def write_unhealthy(self, indices: str) -> None:
        """PATCH the ConfigMap, or POST it if it does not exist and ``indices`` is not empty."""
        name = f"{UNHEALTHY_PREFIX}{self._node}"
        data = {UNHEALTHY_KEY: indices}
        try:
            await self._patch(f"{_CONFIGMAPS}/{name}", {"data": data})
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            if indices:
                body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
                await self._client.request("POST", _CONFIGMAPS, timeout_s=_TIMEOUT_S, body=body)

    async def node_names(self) -> tuple[str, ...]:
        """GET all nodes, page by page."""
        names: list[str] = []
        token = ""
        while True:
            query = {"limit": str(_PAGE_SIZE)} | ({"continue": token} if token else {})
            body = await self._client.request("GET", _NODES, timeout_s=_LIST_TIMEOUT_S, query=query)
            try:
                page = decode(_NAMES, body)
            except msgspec.DecodeError as error:
                raise ApiError(f"the list of nodes cannot be read: {error}", reason="Unreadable") from error
            names += (node.metadata.name for node in page.items or ())
            token = page.metadata.continue_
            if not token:
                return tuple(names)

    async def write_event(self, event: KubeEvent) -> None:
        """POST an Event."""
        await write_event(self._client, event, component=AGENT_NAME, identity=self._identity)

    async def _patch_other_part(self, path: str, body: Mapping[str, Any], refused: ApiError) -> None:
        """PATCH what was not tried yet. Raises ``refused`` if that is forbidden too."""
        other = "" if self._pods_part else _STATUS
        try:
            await self._patch_pod(path + other, body)
        except ApiError as error:
            raise (refused if error.status == HTTPStatus.FORBIDDEN else error) from error
        self._pods_part = other
        log.info("pods_patched_by_other_path", subresource=other, refused=str(refused))

    async def _patch(self, path: str, body: Mapping[str, Any]) -> None:
        await self._client.request("PATCH", path, timeout_s=_TIMEOUT_S, body=body)

    async def _patch_pod(self, path: str, body: Mapping[str, Any]) -> None:
        """PATCH with the UID in the body: the API rejects it as invalid if the pod has another UID."""
        try:
            await self._patch(path, body)
        except ApiError as error:
            if error.status == HTTPStatus.UNPROCESSABLE_ENTITY and _WRONG_UID in str(error):
                raise ApiError(str(error), status=HTTPStatus.NOT_FOUND, reason="NotFound") from error
            raise
