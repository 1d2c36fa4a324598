"""A fake ``AgentApi`` in memory: a node, the annotations of pods, a ConfigMap, events."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from gpushare.deviceplugin.core.startup_taints import without_startup_taints
from gpushare.errors import ApiError
from gpushare.model.local_node import LocalNode
from gpushare.model.objects import Pod
from gpushare.ports import KubeEvent

Hook = Callable[[], Awaitable[None]]


def refused(status: int, text: str = "no") -> ApiError:
    """The API server's answer."""
    return ApiError(text, status=status)


def silence() -> ApiError:
    """No answer in time."""
    return ApiError("no answer in time", reason="Timeout")


@dataclass
class FakeAgentApi:
    """Every write is counted in ``log`` and fails with the next error of its kind, if there is one.

    ``before`` runs inside each write. Two writes at once, events aside, are a defect.
    """

    node: LocalNode = field(default_factory=lambda: LocalNode("n"))
    pods: dict[str, dict[str, str | None]] = field(default_factory=dict)
    unhealthy: str | None = None
    events: list[KubeEvent] = field(default_factory=list)
    patches: list[Mapping[str, Any]] = field(default_factory=list)
    removals: list[Sequence[Mapping[str, Any]]] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    node_errors: deque[ApiError | None] = field(default_factory=deque)
    pod_errors: dict[str, deque[ApiError | None]] = field(default_factory=dict)
    unhealthy_errors: deque[ApiError | None] = field(default_factory=deque)
    taint_errors: deque[ApiError | None] = field(default_factory=deque)
    event_errors: deque[ApiError | None] = field(default_factory=deque)
    away: bool = False
    before: Hook | None = None
    _busy: bool = False

    async def patch_node(self, patch: Mapping[str, Any]) -> None:
        self.log.append("node")
        with self._alone():
            await self._answer(self.node_errors)
            self.patches.append(patch)
            metadata, status = patch.get("metadata", {}), patch.get("status", {})
            self.node = replace(
                self.node,
                annotations=_merge(self.node.annotations, metadata.get("annotations", {})),
                labels=_merge(self.node.labels, metadata.get("labels", {})),
                capacity=_merge(self.node.capacity, status.get("capacity", {})),
                allocatable=_merge(self.node.allocatable, status.get("allocatable", {})),
            )

    async def remove_taints(self, operations: Sequence[Mapping[str, Any]]) -> None:
        self.log.append("taints")
        with self._alone():
            await self._answer(self.taint_errors)
            self.removals.append(operations)
            self.node = without_startup_taints(self.node)

    async def patch_pod(self, pod: Pod, annotations: Mapping[str, str | None]) -> None:
        self.log.append(pod.name)
        with self._alone():
            await self._answer(self.pod_errors.get(pod.uid, deque()))
            self.pods[pod.uid] = {**self.pods.get(pod.uid, {}), **annotations}

    async def write_unhealthy(self, indices: str) -> None:
        self.log.append("unhealthy")
        with self._alone():
            await self._answer(self.unhealthy_errors)
            self.unhealthy = indices

    async def node_names(self) -> tuple[str, ...]:
        return (self.node.name,)

    async def write_event(self, event: KubeEvent) -> None:
        await self._answer(self.event_errors)
        self.events.append(event)

    async def _answer(self, errors: deque[ApiError | None]) -> None:
        await asyncio.sleep(0)
        if self.before:
            await self.before()
        if self.away:
            raise silence()
        error = errors.popleft() if errors else None
        if error is not None:
            raise error

    @contextmanager
    def _alone(self) -> Iterator[None]:
        assert not self._busy, "two writes at once"
        self._busy = True
        try:
            yield
        finally:
            self._busy = False


def _merge(have: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in {**have, **changes}.items() if value is not None}
