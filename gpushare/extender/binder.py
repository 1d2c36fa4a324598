"""Bind: choose GPUs, reserve them, and send one POST to the API server.

The order is choose → fence → reserve → POST, without an await before the reservation is in the ledger. The
fence is checked again once the connection is open, because opening it may take long enough to lose the Lease.
``unclear_binds`` tracks POSTs with unknown outcome.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Final

import structlog

from gpushare.contract import (
    ANN_MODE,
    ANN_SEAL,
    EVENT_MALFORMED,
    EVENT_PLACED,
    EVENT_REFUSED,
    RESOURCE_MEM,
)
from gpushare.errors import ApiError
from gpushare.extender.api import ExtenderApi
from gpushare.extender.cluster import ClusterState
from gpushare.extender.decision import (
    BOUND,
    BindRequest,
    BindResult,
    Decision,
    bound_already,
    decided,
    reason_of,
    units_of_lowest,
)
from gpushare.extender.group_holds import GroupHolds
from gpushare.extender.lease import LeaseDurations
from gpushare.extender.unclear_binds import UnclearBinds
from gpushare.model.annotations import bind_annotations
from gpushare.model.demand import Demand, Malformed
from gpushare.model.objects import Pod
from gpushare.ports import Fence, KubeEvent, pod_event
from gpushare.scheduling.advice.refusals import refusal
from gpushare.scheduling.events import Confirmed, Released, Reserved
from gpushare.scheduling.fitting import PodRequest, Rejection, place

log = structlog.get_logger()

_WRONG_UID: Final = (
    "The pod {pod.name} in ns {pod.namespace}'s uid is {pod.uid}, and it's not equal with expected {expected}"
)
_UNMANAGED: Final = (
    f"pod {{pod.full_name}} asks for no {RESOURCE_MEM}, and this extender binds only pods that do: "
    "set managedResources in its entry of the scheduler's configuration"
)
"""Otherwise any client of the port could bind any pod to a GPU node without the scheduler."""


class Binder:
    """The only writer of bindings in this process.

    ``announce`` is awaited before each bind; ``fence`` returns why a POST must not start now.
    """

    def __init__(
        self,
        cluster: ClusterState,
        api: ExtenderApi,
        *,
        announce: Callable[[], Awaitable[None]],
        fence: Fence,
        record_event: Callable[[KubeEvent], None],
        tasks: asyncio.TaskGroup,
        durations: LeaseDurations,
    ) -> None:
        self._cluster = cluster
        self._api = api
        self._announce = announce
        self._fence = fence
        self._record_event = record_event
        self._tasks = tasks
        self._post_s = durations.post_s
        self._running: dict[str, tuple[str, asyncio.Task[BindResult]]] = {}
        self.unclear = UnclearBinds(cluster, api, tasks=tasks, api_request_s=durations.api_request_s)
        self._holds = GroupHolds(cluster, lambda uid: uid in self._running or uid in self.unclear)

    async def bind(self, request: BindRequest) -> BindResult:
        """Bind, or return the error. A second call for the same pod and node joins the first."""
        running = self._running.get(request.uid)
        if running is None:
            task = self._tasks.create_task(self._bind(request))
            self._running[request.uid] = (request.node, task)
            task.add_done_callback(lambda _: self._running.pop(request.uid, None))
            # A client that goes away must not cancel a POST, whose outcome would be unknown.
            return await asyncio.shield(task)
        node, task = running
        if node != request.node:
            return BindResult(
                f"a bind of pod {request.namespace}/{request.name} to node {node} is under way", "under_way"
            )
        return await asyncio.shield(task)

    @property
    def busy(self) -> bool:
        """Whether a bind is in progress or has an unknown outcome."""
        return bool(self._running or self.unclear)

    async def drain(self) -> None:
        """Return when no bind is in progress."""
        while self._running:
            await asyncio.wait([task for _, task in self._running.values()])

    async def _bind(self, request: BindRequest) -> BindResult:
        await self._announce()
        try:
            return await self._decide(request)
        except ApiError as error:
            return BindResult(f"reading pod {request.namespace}/{request.name}: {error}", "api_read")
        except Exception:  # a defect must neither stop the daemon nor lose a reservation
            log.exception("bind_crashed", pod=f"{request.namespace}/{request.name}", node=request.node)
            self._track_if_reserved(request)
            return BindResult(
                f"binding pod {request.namespace}/{request.name}: internal error, see the log", "internal"
            )

    def _track_if_reserved(self, request: BindRequest) -> None:
        reserved = self._cluster.ledger.reservation(request.uid)
        if reserved is not None and not reserved[1].confirmed:
            self.unclear.track(Pod(request.uid, request.namespace, request.name, reserved[1].demand))

    async def _decide(self, request: BindRequest) -> BindResult:
        pod = self._cluster.pods.get(request.uid)
        if pod is None:
            # The scheduler's watch may be ahead of ours.
            pod = await self._api.read_pod(request.namespace, request.name)
        if pod is None:
            return BindResult(f"pod {request.namespace}/{request.name} not found", "not_found")
        if pod.uid != request.uid:
            return BindResult(_WRONG_UID.format(pod=pod, expected=request.uid), "wrong_uid")
        if not pod.managed:
            return BindResult(_UNMANAGED.format(pod=pod), "unmanaged")
        # The ledger before the pod: it knows of binds that the watch has not shown yet.
        reserved = self._cluster.ledger.reservation(pod.uid)
        if reserved is not None:
            return await self._again(pod, reserved[0], request.node)
        if pod.node is not None:
            return bound_already(pod, request.node)
        return await self._place(pod, request.node)

    async def _again(self, pod: Pod, reserved_on: str, node: str) -> BindResult:
        """A bind of a pod with a reservation: the same answer again, or settle the reservation first."""
        book = self._cluster.ledger.books[reserved_on]
        reservation = book.reservations[pod.uid]
        if reserved_on == node and reservation.confirmed:
            return BOUND
        if reserved_on == node:
            # The first POST may have had an effect, so the second one must say the same.
            return await self._post(decided(pod, book, reservation.demand, reservation.claim or ()))
        if not reservation.confirmed:
            await self.unclear.check(pod)
            if self._cluster.ledger.reservation(pod.uid) is None:
                return await self._place(pod, node)
        return BindResult(self._elsewhere(pod, reserved_on), "elsewhere")

    def _elsewhere(self, pod: Pod, reserved_on: str) -> str:
        if pod.uid in self.unclear:
            return (
                f"an earlier bind of pod {pod.full_name} to node {reserved_on} has no clear outcome; "
                f"its units stay reserved there for up to {self.unclear.remaining_s(pod.uid):.0f} s"
            )
        return f"pod {pod.full_name} is already bound to node {reserved_on}"

    async def _place(self, pod: Pod, node: str) -> BindResult:
        if isinstance(pod.demand, Malformed):
            self._record_event(pod_event(pod, EVENT_MALFORMED, pod.demand.problem, warning=True))
            return BindResult(pod.demand.problem, "malformed")
        if pod.demand.empty:
            return await self._bind_without_units(pod, node)
        if pod.group:
            return await self._place_member(pod, pod.demand, node)
        return await self._place_alone(pod, pod.demand, node)

    async def _place_member(self, pod: Pod, demand: Demand, node: str) -> BindResult:
        if reason := self._fence():
            return BindResult(reason, "fenced")
        if refused := self._holds.reserve(pod, node):
            self._record_event(pod_event(pod, EVENT_REFUSED, refused.error, warning=True))
            return refused
        if self._cluster.ledger.reservation(pod.uid):
            return await self._again(pod, node, node)
        return await self._place_alone(pod, demand, node)

    async def _place_alone(self, pod: Pod, demand: Demand, node: str) -> BindResult:
        book = self._cluster.ledger.books.get(node)
        if book is None:
            return BindResult(f'node "{node}" not found', "unknown_node")
        pod_request = PodRequest(pod.uid, demand, pod.priority, pod.placement, binding=True)
        shares = place(book, pod_request)
        if isinstance(shares, Rejection):
            text = f"node {node} cannot take pod {pod.full_name}: {refusal(book, pod_request)}"
            self._record_event(pod_event(pod, EVENT_REFUSED, text, warning=True))
            return BindResult(text, "no_fit")
        return await self._post(decided(pod, book, demand, shares))

    async def _bind_without_units(self, pod: Pod, node: str) -> BindResult:
        """Bind a pod that requests nothing, on any node. It has no reservation that could be lost."""
        if reason := self._fence():
            return BindResult(reason, "fenced")
        try:
            await self._api.bind(pod, node, {}, timeout_s=self._post_s, fence=self._fence)
        except ApiError as error:
            reason = reason_of(error) if error.clear else "unclear"
            return BindResult(f"binding pod {pod.full_name} to node {node}: {error}", reason)
        return BOUND

    async def _post(self, decision: Decision) -> BindResult:
        fenced = self._fence()
        if fenced:
            return BindResult(fenced, "fenced")
        pod, node, shares = decision.pod, decision.node, decision.shares
        # No await since the choice: another bind cannot have taken these units.
        if self._cluster.ledger.reservation(pod.uid) is None:
            self._cluster.apply(Reserved(pod, decision.demand, node, shares))
        annotations = self._annotations(decision)
        # Before the POST, which may take effect as late as the first one could have.
        self.unclear.extend(pod.uid)
        try:
            await self._api.bind(pod, node, annotations, timeout_s=self._post_s, fence=self._fence)
        except ApiError as error:
            return await self._failed(decision, error)
        return self._succeeded(decision)

    def _annotations(self, decision: Decision) -> dict[str, str]:
        uid, node, shares = decision.pod.uid, decision.node, decision.shares
        book = self._cluster.ledger.books[node]
        annotations = bind_annotations(decision.demand, shares, units_of_lowest(book, shares), time.time_ns())
        mode = book.reservations[uid].mode
        if mode:
            annotations[ANN_MODE] = mode
        seal = self._cluster.sealer.seal(uid, node, shares, mode)
        if seal:
            annotations[ANN_SEAL] = seal
        return annotations

    def _succeeded(self, decision: Decision) -> BindResult:
        self.unclear.resolve(decision.pod.uid)
        self._cluster.apply(Confirmed(decision.pod.uid))
        self._record_event(pod_event(decision.pod, EVENT_PLACED, decision.text))
        return BOUND

    async def _failed(self, decision: Decision, error: ApiError) -> BindResult:
        pod = decision.pod
        if not error.clear:
            self.unclear.track(pod)
            return BindResult(
                f"{decision.what}: {error}; outcome unknown, its units stay reserved", "unclear"
            )
        if error.status == HTTPStatus.CONFLICT:
            return await self._conflict(decision, error)
        if pod.uid in self.unclear:
            # An earlier POST of the same decision may still take effect.
            return BindResult(f"{decision.what}: {error}; an earlier attempt has no clear outcome", "unclear")
        self._cluster.apply(Released(pod.uid))
        return BindResult(f"{decision.what}: {error}", reason_of(error))

    async def _conflict(self, decision: Decision, error: ApiError) -> BindResult:
        """409: the pod is bound already, perhaps by an earlier POST, or another pod has the name."""
        pod = decision.pod
        try:
            await self.unclear.check(pod, refused=True)
        except ApiError as failure:
            self.unclear.track(pod)
            return BindResult(f"{decision.what}: {error}; reading the pod: {failure}", "unclear")
        reserved = self._cluster.ledger.reservation(pod.uid)
        bound = reserved is not None and reserved[0] == decision.node and reserved[1].confirmed
        if reserved is not None and bound and reserved[1].claim == decision.shares:
            return self._succeeded(decision)
        return BindResult(f"{decision.what}: {error}", "conflict")
