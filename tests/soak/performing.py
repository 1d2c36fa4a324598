"""Carries out actions on the cluster of a soak.

What belongs here: one action each. What does not: their order and times (``tests.soak.schedule``).
"""

import asyncio
import random
from collections import defaultdict
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import Final

from aiohttp import web

from gpushare.errors import ApiError
from testbed.control_plane.nodes import node_object
from tests.soak.actions import REAL, UNITS, Action, Verb, machine_of
from tests.soak.cluster import Cluster, sim_node
from tests.soak.pods import Pods, insist
from tests.soak.processes import Keeper
from tests.soak.units import Units
from tests.support.fakes.fault_proxy import Fault, FaultProxy, on_bind, status_answer
from tests.support.fixtures.agents import Link
from tests.support.fixtures.gpu_nodes import SHARING

_NODES: Final = "/api/v1/nodes"
_EVERY: Final = 10**6
"""More binds than a link sees."""
_SILENCE_S: Final = 5.0
"""Longer than any client waits for a bind."""
_ERRORS: Final = (
    (HTTPStatus.INTERNAL_SERVER_ERROR, "InternalError"),
    (HTTPStatus.SERVICE_UNAVAILABLE, "ServiceUnavailable"),
    (HTTPStatus.TOO_MANY_REQUESTS, "TooManyRequests"),
)


@dataclass
class Performer:
    """Actions on different targets run at the same time, those on one target in order.

    All targets on a node with its own kernel are one: no command runs on it while it reboots.
    """

    cluster: Cluster
    pods: Pods
    keeper: Keeper
    units: Units
    _locks: dict[str, asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))
    _tasks: set["asyncio.Task[None]"] = field(default_factory=set)

    def begin(self, action: Action) -> None:
        """Begin an action; ``settled`` waits for it."""
        self._tasks.add(asyncio.create_task(self._in_order(action)))

    async def settled(self) -> None:
        """Wait for all actions; raise the first error."""
        tasks, self._tasks = self._tasks, set()
        await asyncio.gather(*tasks)

    def failed(self) -> None:
        """Raise the error of an action that has failed."""
        for each in self._tasks:
            if each.done():
                each.result()
        self._tasks = {each for each in self._tasks if not each.done()}

    async def cancel(self) -> None:
        """End all actions that have not ended."""
        for each in self._tasks:
            each.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _in_order(self, action: Action) -> None:
        async with self._locks[machine_of(action.target)]:
            await self._perform(action)

    async def _perform(self, action: Action) -> None:
        target = action.target
        match action.verb:
            case Verb.CREATE | Verb.FINISH | Verb.DELETE:
                await self._on_pod(action)
            case Verb.KILL | Verb.STOP | Verb.START | Verb.FREEZE | Verb.CONTINUE:
                await self._on_process(action)
            case Verb.STEP_CLOCK | Verb.SET_CLOCK:
                await self.cluster.set_clock(target.removeprefix("clock of "), int(action.value))
            case Verb.REBOOT:
                await self.units.reboot(target)
            case Verb.DELETE_NODE:
                await insist(
                    partial(self.cluster.bed.delete_node, target),
                    f"{target} to be deleted",
                    HTTPStatus.NOT_FOUND,
                )
            case Verb.CREATE_NODE:
                await self._create_node(target)
            case _:
                fault_link(self.cluster.links[target.removeprefix("link of ")], action)

    async def _on_pod(self, action: Action) -> None:
        match action.verb:
            case Verb.CREATE:
                assert action.shape
                await self.pods.create(action.target, action.shape)
            case Verb.FINISH:
                await self.pods.finish(action.target)
            case _:
                await self.pods.delete(action.target, action.value)

    async def _on_process(self, action: Action) -> None:
        target = action.target
        programs = self.units if target in UNITS else self.keeper
        match action.verb:
            case Verb.KILL | Verb.STOP:
                await programs.end(target, kill=action.verb is Verb.KILL)
            case Verb.START:
                await programs.start(target)
            case Verb.FREEZE:
                await programs.freeze(target)
            case _:
                await programs.resume(target)

    async def _create_node(self, name: str) -> None:
        """Create a Node again, with its labels if its kubelet has created it meanwhile."""
        api = self.cluster.bed.api
        body = (
            {"metadata": {"name": name, "labels": SHARING}} if name in REAL else node_object(sim_node(name))
        )

        async def create() -> None:
            try:
                await api.create(_NODES, body)
            except ApiError as error:
                if error.status != HTTPStatus.CONFLICT:
                    raise
                await api.patch(f"{_NODES}/{name}", {"metadata": {"labels": body["metadata"]["labels"]}})

        await insist(create, f"{name} to be created")


def fault_link(link: Link, action: Action) -> None:
    """Begin or end a fault of the connection to the API server."""
    proxy = link.proxy
    match action.verb:
        case Verb.REFUSE:
            proxy.faults.append(_refuse(random.Random(str(action)), action.value))
        case Verb.CUT:
            link.cut()
        case Verb.HOLD_WATCHES:
            proxy.watches_flow.clear()
        case Verb.LOSE_ANSWERS:
            proxy.faults.append(on_bind(_lose(proxy), times=_EVERY))
        case Verb.DELAY_BINDS:
            proxy.faults.append(on_bind(_delay(proxy, action.value), times=_EVERY))
        case Verb.DROP_WATCHES:
            proxy.drop_streams()
        case Verb.REPAIR:
            link.restore()
            proxy.watches_flow.set()
        case _:
            raise ValueError(f"{action} is no fault of a link")


def _refuse(dice: random.Random, share: float) -> Fault:
    async def refuse(_: web.Request) -> web.StreamResponse | None:
        if dice.random() >= share:
            return None
        status, reason = dice.choice(_ERRORS)
        return status_answer(status, reason, "injected by the soak")

    return refuse


def _lose(proxy: FaultProxy) -> Fault:
    async def lose(request: web.Request) -> web.StreamResponse | None:
        await proxy.forward_and_reset(request)
        return web.Response()

    return lose


def _delay(proxy: FaultProxy, delay_s: float) -> Fault:
    async def delay(request: web.Request) -> web.StreamResponse | None:
        proxy.later(request, delay_s)
        await asyncio.sleep(_SILENCE_S)
        return web.Response(status=HTTPStatus.GATEWAY_TIMEOUT)

    return delay
