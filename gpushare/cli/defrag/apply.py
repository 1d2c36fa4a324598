"""Carries out a plan: nominate the waiting pod, evict for it, and wait until all have a node again.

The first surprise ends it: nothing after it has been done, and a new plan starts from what is then true.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from http import HTTPStatus
from typing import Final

from gpushare.adapters.kube.client import KubeClient
from gpushare.adapters.kube.wire import WirePod, pod_of
from gpushare.cli.defrag.plan import Help
from gpushare.errors import ApiError, ConfigError, GpuShareError
from gpushare.model.objects import Pod
from gpushare.overview.lists import TIMEOUT_S, decoded, listed, pods_path

_POLL_S: Final = 1.0


class Surprise(ConfigError):
    """Something went otherwise than planned, so the rest of the plan is not carried out."""


class Run:
    """One plan that is carried out. ``deadline_s`` is the longest wait for the pods of one step."""

    def __init__(
        self,
        client: KubeClient,
        *,
        deadline_s: float,
        show: Callable[[str], None],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._client = client
        self._deadline_s = deadline_s
        self._show = show
        self._sleep = sleep

    async def carry_out(self, helped: Iterable[Help]) -> None:
        """Help one pod after the other. Raises Surprise and ApiError."""
        for each in helped:
            if each.steps:
                await self._help(each)

    async def _help(self, each: Help) -> None:
        before = {ns: await self._uids(ns) for ns in {step.pod.namespace for step in each.steps}}
        await self._nominate(each.pod, each.node)
        try:
            # All at once: a pod that comes back sees all terminate, and leaves the nominated pod its room.
            for step in each.steps:
                await self._evict(step.pod)
            for step in each.steps:
                if step.target:
                    await self._until_back(step.pod, before[step.pod.namespace])
            await self._until_placed(each)
        except GpuShareError:
            await self._nominate(each.pod, None)
            raise

    async def _nominate(self, pod: Pod, node: str | None) -> None:
        """Reserve the room, so that no pod of equal or lower priority takes it; None: no longer."""
        body = {"metadata": {"uid": pod.uid}, "status": {"nominatedNodeName": node}}
        await self._client.request("PATCH", f"{_path(pod)}/status", timeout_s=TIMEOUT_S, body=body)

    async def _evict(self, pod: Pod) -> None:
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod.name, "namespace": pod.namespace},
            "deleteOptions": {"preconditions": {"uid": pod.uid}},
        }
        try:
            await self._client.request("POST", f"{_path(pod)}/eviction", timeout_s=TIMEOUT_S, body=body)
        except ApiError as error:
            if error.status == HTTPStatus.TOO_MANY_REQUESTS:
                raise Surprise(f"a disruption budget protects pod {pod.full_name} now: {error}") from error
            raise
        self._show(f"evicted {pod.full_name}")

    async def _until_back(self, gone: Pod, before: frozenset[str]) -> None:
        """Wait for a pod of the same controller that did not exist, and has a node."""

        async def back() -> str | None:
            pods = await self._pods(gone.namespace)
            found = (p for p in pods if p.owner == gone.owner and p.uid not in before and p.node)
            return next((f"{p.full_name} is on node {p.node}" for p in found), None)

        self._show(await self._until(back, f"the replacement of pod {gone.full_name} has no node"))

    async def _until_placed(self, each: Help) -> None:
        pod = each.pod

        async def placed() -> str | None:
            found = next((p for p in await self._pods(pod.namespace) if p.uid == pod.uid), None)
            if found is None:
                raise Surprise(f"pod {pod.full_name}, for which room was made, is gone")
            return f"{pod.full_name} is on node {found.node}" if found.node else None

        self._show(await self._until(placed, f"pod {pod.full_name}, for which room was made, has no node"))

    async def _until(self, condition: Callable[[], Awaitable[str | None]], failure: str) -> str:
        waited = 0.0
        while waited < self._deadline_s:
            if found := await condition():
                return found
            await self._sleep(_POLL_S)
            waited += _POLL_S
        raise Surprise(f"{failure} after {self._deadline_s:g} s: see kubectl gpushare explain")

    async def _uids(self, namespace: str) -> frozenset[str]:
        return frozenset(pod.uid for pod in await self._pods(namespace))

    async def _pods(self, namespace: str) -> Sequence[Pod]:
        path = pods_path(namespace)
        wires = decoded(await listed(self._client, path), WirePod, path)
        return [pod for each in wires if (pod := pod_of(each))]


def _path(pod: Pod) -> str:
    return f"{pods_path(pod.namespace)}/{pod.name}"
