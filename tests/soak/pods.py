"""The pods of a soak, and their owner: it creates a pod again that failed or went away with its node.

What belongs here: requests about pods. What does not: which pods there are (``tests.soak.schedule``).
"""

import asyncio
import itertools
import signal
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus

from gpushare.contract import LABEL_CARDS_PER_POD
from gpushare.errors import ApiError
from testbed import SLOW_DELETE, DevkitError, until
from testbed.control_plane.api import Object
from tests.soak.actions import REAL, SIMULATED, Shape
from tests.soak.cluster import Cluster
from tests.support.fixtures.gpu_nodes import PODS, container, pod

_SCRIPT = "trap 'exit 0' USR1; trap '' TERM; sleep 100000 & wait"
"""A deleted pod uses its whole grace period, and a wait is interrupted by the other signal only."""
_INSIST_S = 120.0
_LOOK_S = 0.5
_REMIND = 4
_REMINDER = "testbed.gpushare.io/look-again"
_GONE = "gone with its node"
_FINISH = signal.SIGUSR1


async def insist(work: Callable[[], Awaitable[object]], what: str, *accepted: HTTPStatus) -> None:
    """Repeat a request until the API server carries it out, or answers with an accepted error."""

    async def done() -> bool:
        try:
            await work()
        except ApiError as error:
            if error.status not in accepted:
                raise
        return True

    await until(done, what, _INSIST_S)


def pod_of(name: str, shape: Shape) -> Object:
    """Return a pod that runs until a signal ends it."""
    containers = [
        container(units, f"c{index}", script=_SCRIPT) for index, units in enumerate(shape.containers)
    ]
    labels = {LABEL_CARDS_PER_POD: str(shape.gpus)} if shape.gpus > 1 else {}
    found = pod(name, *containers, labels=labels, restartPolicy="OnFailure", terminationGracePeriodSeconds=2)
    found["metadata"]["annotations"] = {SLOW_DELETE: "true"}
    return found


@dataclass
class Pods:
    """``wanted`` are created and not deleted. ``replaced`` counts pods created again, by reason."""

    cluster: Cluster
    wanted: dict[str, Shape] = field(default_factory=dict)
    finished: set[str] = field(default_factory=set)
    replaced: Counter[str] = field(default_factory=Counter)
    messages: dict[str, str] = field(default_factory=dict)
    """Reason of a failure → its latest message."""
    _locks: dict[str, asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))

    async def create(self, name: str, shape: Shape) -> None:
        """Create a pod."""
        async with self._locks[name]:
            await self._create(name, shape)
            self.wanted[name] = shape

    async def _create(self, name: str, shape: Shape) -> None:
        create = self.cluster.bed.api.create
        await insist(lambda: create(PODS, pod_of(name, shape)), f"{name} to be created", HTTPStatus.CONFLICT)

    async def delete(self, name: str, grace_s: float) -> None:
        """Delete a pod; it uses the whole grace period. With 0 its object is gone before its containers."""
        self.wanted.pop(name, None)
        async with self._locks[name]:
            await self._delete(name, grace_s)
            if grace_s:
                await asyncio.sleep(grace_s)
                await self._let_go(name)

    async def _let_go(self, name: str) -> None:
        """Let kwok remove a deleted pod; kubelets do not read the annotation."""
        patch, change = self.cluster.bed.api.patch, {"metadata": {"annotations": {SLOW_DELETE: None}}}
        await insist(lambda: patch(f"{PODS}/{name}", change), f"{name} to leave", HTTPStatus.NOT_FOUND)

    async def _delete(self, name: str, grace_s: float) -> None:
        delete, grace = self.cluster.bed.api.delete, f"{grace_s:g}"
        path = f"{PODS}/{name}"
        what = f"{name} to be deleted"
        await insist(lambda: delete(path, gracePeriodSeconds=grace), what, HTTPStatus.NOT_FOUND)

    async def finish(self, name: str) -> None:
        """End the containers of a pod with success, if all of them run."""
        with suppress(ApiError):
            found = await self.cluster.bed.api.get(f"{PODS}/{name}")
            if not _all_run(found):
                return
            if found["spec"]["nodeName"] in REAL:
                await self._end(found)
                return
            self.finished.add(name)
            status = {"status": {"phase": "Succeeded"}}
            await self.cluster.bed.api.patch(f"{PODS}/{name}/status", status)

    async def _end(self, found: Object) -> None:
        node, uid = self.cluster.nodes[found["spec"]["nodeName"]], found["metadata"]["uid"]
        # A node that reboots does not answer, or not to the end.
        with suppress(DevkitError, OSError, ValueError):
            containers = [each for each in await node.containers() if each.uid == uid]
            all_run = len(containers) == len(found["spec"]["containers"])
            if all_run and all(each.handles(_FINISH) for each in containers):
                self.finished.add(found["metadata"]["name"])
                await node.send(_FINISH, [each.pid for each in containers])

    async def own(self) -> None:
        """Create pods again that failed or are gone, until cancelled."""
        for look in itertools.count():
            with suppress(ApiError):
                found = {each["metadata"]["name"]: each for each in await self.cluster.bed.api.items(PODS)}
                for name in list(self.wanted):
                    if name not in found or found[name]["status"].get("phase") == "Failed":
                        await self._replace(name)
                if look % _REMIND == 0:
                    await self._remind(filter(_awaits_kwok, found.values()), look)
            await asyncio.sleep(_LOOK_S)

    async def _remind(self, pods: Iterable[Object], look: int) -> None:
        """Change pods, so that kwok sees them: it forgets those of a node that is created again."""
        change = {"metadata": {"annotations": {_REMINDER: str(look)}}}
        for each in pods:
            with suppress(ApiError):
                await self.cluster.bed.api.patch(f"{PODS}/{each['metadata']['name']}", change)

    async def _replace(self, name: str) -> None:
        async with self._locks[name]:
            if name not in self.wanted:
                return
            reason = await self._failure(name)
            if reason:
                self.replaced[reason] += 1
                await self._delete(name, 0)
                await self._create(name, self.wanted[name])

    async def _failure(self, name: str) -> str:
        """Return why a pod needs to be created again; empty if it does not."""
        try:
            found = await self.cluster.bed.api.get(f"{PODS}/{name}")
        except ApiError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return _GONE
            raise
        status = found["status"]
        if status.get("phase") != "Failed":
            return ""
        reason = str(status.get("reason", "Failed"))
        self.messages[reason] = f"{name}: {status.get('message', '')}"
        return reason


def _awaits_kwok(found: Object) -> bool:
    """Return whether a pod on a simulated node should start or leave."""
    meta = found["metadata"]
    leaves = "deletionTimestamp" in meta and SLOW_DELETE not in meta.get("annotations", {})
    starts = found["status"].get("phase") == "Pending"
    return found["spec"].get("nodeName") in SIMULATED and (leaves or starts)


def _all_run(found: Object) -> bool:
    statuses = found["status"].get("containerStatuses", ())
    running = ["running" in each["state"] for each in statuses]
    return found["status"].get("phase") == "Running" and len(running) == len(found["spec"]["containers"]) > 0
