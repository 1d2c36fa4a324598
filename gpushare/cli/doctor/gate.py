"""``doctor --max-unready``: reads the fleet, again and again while it may become ready. It only reads."""

import asyncio
import time
from typing import Final, TypeVar

from gpushare.adapters.kube.client import KubeClient
from gpushare.cli.doctor.readiness import Fleet, Rollout, readiness
from gpushare.cli.doctor.verdict import CheckFinding, Status
from gpushare.cli.lib.flag_types import Allowance
from gpushare.contract import AGENT_NAME, SYSTEM_NAMESPACE
from gpushare.overview.lists import NODES, decoded, listed, pods_path
from gpushare.overview.objects import ClusterNode
from gpushare.overview.system_pods import SystemPod

T = TypeVar("T")

_DAEMON_SETS: Final = f"/apis/apps/v1/namespaces/{SYSTEM_NAMESPACE}/daemonsets"
_AGENTS: Final = {"labelSelector": f"component={AGENT_NAME}"}
_POLL_S: Final = 5.0


async def awaited(client: KubeClient, allowance: Allowance, within_s: float) -> CheckFinding:
    """The finding as soon as the nodes are ready, else that at the end. Raises ApiError."""
    check = readiness(allowance)
    ends_at = time.monotonic() + within_s
    while True:
        found = CheckFinding(check, check.run(await _fleet(client)))
        left_s = ends_at - time.monotonic()
        if found.verdict.status is Status.OK or left_s <= 0:
            return found
        await asyncio.sleep(min(_POLL_S, left_s))


async def _fleet(client: KubeClient) -> Fleet:
    return Fleet(
        nodes=await _list(client, NODES, ClusterNode),
        agents=await _list(client, pods_path(SYSTEM_NAMESPACE), SystemPod, _AGENTS),
        rollouts=await _list(client, _DAEMON_SETS, Rollout, _AGENTS),
    )


async def _list(client: KubeClient, path: str, kind: type[T], query: dict[str, str] | None = None) -> list[T]:
    return decoded(await listed(client, path, query), kind, path)
