"""``doctor --max-unready``: reads the fleet, again and again while it may become ready. It only reads."""

import asyncio
import time
from http import HTTPStatus
from typing import Final, TypeVar

from gpushare.adapters.kube.client import KubeClient
from gpushare.cli.doctor.readiness import Fleet, Rollout, readiness
from gpushare.cli.doctor.verdict import Check, CheckFinding, Status
from gpushare.cli.lib.flag_types import Allowance
from gpushare.contract import AGENT_NAME, SYSTEM_NAMESPACE
from gpushare.errors import ApiError
from gpushare.overview.lists import NODES, decoded, listed, pods_path
from gpushare.overview.objects import ClusterNode
from gpushare.overview.system_pods import SystemPod

T = TypeVar("T")

_DAEMON_SETS: Final = f"/apis/apps/v1/namespaces/{SYSTEM_NAMESPACE}/daemonsets"
_AGENTS: Final = {"labelSelector": f"component={AGENT_NAME}"}
_POLL_S: Final = 5.0
_REFUSED: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND)


async def awaited(client: KubeClient, allowance: Allowance, within_s: float) -> CheckFinding:
    """The finding as soon as the nodes are ready, else the last one. Raises ApiError."""
    check = readiness(allowance)
    ends_at = time.monotonic() + within_s
    found = await _finding(client, check)
    while found.verdict.status is not Status.OK and (left_s := ends_at - time.monotonic()) > 0:
        await asyncio.sleep(min(_POLL_S, left_s))
        found = await _newer(client, check) or found
    return found


async def _newer(client: KubeClient, check: Check[Fleet]) -> CheckFinding | None:
    """None while the API server does not answer: a restart of it ends no wait of an hour."""
    try:
        return await _finding(client, check)
    except ApiError as error:
        if error.status in _REFUSED:
            raise
        return None


async def _finding(client: KubeClient, check: Check[Fleet]) -> CheckFinding:
    return CheckFinding(check, check.run(await _fleet(client)))


async def _fleet(client: KubeClient) -> Fleet:
    return Fleet(
        nodes=await _list(client, NODES, ClusterNode),
        agents=await _list(client, pods_path(SYSTEM_NAMESPACE), SystemPod, _AGENTS),
        rollouts=await _list(client, _DAEMON_SETS, Rollout, _AGENTS),
    )


async def _list(client: KubeClient, path: str, kind: type[T], query: dict[str, str] | None = None) -> list[T]:
    return decoded(await listed(client, path, query), kind, path)
