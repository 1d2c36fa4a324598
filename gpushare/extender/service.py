"""One request of the scheduler, from body to answer: readiness, the verb, metrics, logs.

Knows nothing of HTTP; ``routes`` does.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, Final, Protocol

import msgspec
import structlog

from gpushare.adapters.peer import Peers
from gpushare.contract import EXTENDER_PREFIX
from gpushare.errors import ApiError, InvalidRequest
from gpushare.extender import codec, verbs
from gpushare.extender.binder import Binder
from gpushare.extender.cluster import Cluster
from gpushare.extender.decision import BindResult
from gpushare.extender.leadership import Leadership
from gpushare.extender.metrics import ExtenderMetrics
from gpushare.extender.per_book import PerBook
from gpushare.extender.time_budget import TimeBudget
from gpushare.extender.verbs import VerbResult
from gpushare.scheduling.inspection import inspect, inspect_node
from gpushare.scheduling.ledger import Ledger

log = structlog.get_logger()

_BINDS_BEFORE_HINT: Final = 20
"""Enough to distinguish a Policy without the verb from a cluster with one feasible node at first."""

_CATCH_UP_S: Final = 0.03
"""The longest delay of the answer for a pod that waits and still fits on no node."""
_CATCH_UP_SHARE: Final = 0.05
_CATCH_UP_SAVED_S: Final = 1.0
"""Such delays take at most this part of the time, because the scheduler handles one pod after the other."""

Verb = Callable[[bytes, Ledger], VerbResult]


class Readiness(Protocol):
    """Whether the caches are complete."""

    def missing(self) -> str | None:
        """What is not listed yet, as text; None once everything is."""


class SchedulerService:
    """Answers the scheduler; ``shortlist`` is the maximum of nodes that filter returns, 0 for all."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        binder: Binder,
        leadership: Leadership,
        peers: Peers,
        metrics: ExtenderMetrics,
        readiness: Readiness,
        shortlist: int = 0,
    ) -> None:
        self._cluster = cluster
        self._binder = binder
        self._leadership = leadership
        self._peers = peers
        self._metrics = metrics
        self._readiness = readiness
        self._verbs: dict[str, Verb] = {
            "filter": partial(verbs.filter_verb, most=shortlist),
            "prioritize": verbs.prioritize_verb,
        }
        self._binds_before_hint = _BINDS_BEFORE_HINT
        self._scored = False
        self._inspected = PerBook(lambda book: msgspec.json.encode(inspect_node(book)))
        self._delays = TimeBudget(_CATCH_UP_SHARE, _CATCH_UP_SAVED_S)

    def answer(self, verb: str, body: bytes) -> bytes | Coroutine[Any, Any, bytes]:
        """The answer of filter or prioritize."""
        began = time.perf_counter()
        self._scored |= verb == "prioritize"
        result = self._run_verb(verb, body)
        if result.waiting_uid and self._waits(result.waiting_uid) and self._delays.allows(_CATCH_UP_S):
            return self._retry_for_waiting_pod(verb, body, began)
        self._record(verb, began, result.error)
        return result.answer

    async def preempt(self, body: bytes) -> bytes:
        """The victims on the nodes that the scheduler proposes."""
        began = time.perf_counter()
        result = await self._preempt(body)
        self._record("preempt", began, result.error)
        return result.answer

    async def _preempt(self, body: bytes) -> VerbResult:
        if missing := self._readiness.missing():
            return VerbResult(verbs.error_answer("preempt", missing), missing)
        steps = verbs.preempt_steps(body, self._cluster.ledger)
        try:
            while True:
                next(steps)
                await asyncio.sleep(0)
        except StopIteration as end:
            result: VerbResult = end.value
            return result
        except Exception as error:  # a defect must not stop the daemon
            log.exception("verb_crashed", verb="preempt")
            return _crashed("preempt", error)

    def _run_verb(self, verb: str, body: bytes) -> VerbResult:
        if missing := self._readiness.missing():
            return VerbResult(verbs.error_answer(verb, missing), missing)
        try:
            return self._verbs[verb](body, self._cluster.ledger)
        except Exception as error:  # as above
            log.exception("verb_crashed", verb=verb)
            return _crashed(verb, error)

    def _waits(self, uid: str) -> bool:
        pod = self._cluster.pods.get(uid)
        return pod is not None and pod.unschedulable is not None

    async def _retry_for_waiting_pod(self, verb: str, body: bytes, began: float) -> bytes:
        """The response after the extender's watches had time to deliver the event that the scheduler handled.

        The scheduler retries a waiting pod after an event that the extender may receive a moment later: a pod
        is gone, a GPU is healthy again. A rejected pod would wait for another event, five minutes at worst.
        """
        result = self._run_verb(verb, body)
        deadline = time.monotonic() + _CATCH_UP_S
        while result.waiting_uid and (left_s := deadline - time.monotonic()) > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._cluster.next_ledger()
            result = self._run_verb(verb, body)
        self._delays.spend(time.perf_counter() - began)
        self._record(verb, began, result.error)
        return result.answer

    async def bind(self, body: bytes, *, forwarded: bool) -> bytes:
        """Bind here if this replica leads, otherwise forward the request to the leader."""
        began = time.perf_counter()
        try:
            request = verbs.bind_request(body)
            missing = self._readiness.missing()
            if missing:
                outcome = BindResult(missing, "not_ready")
            elif self._leadership.leads or forwarded or self._leadership.holder is None:
                outcome = await self._binder.bind(request)
            else:
                outcome = await self._forward(body)
        except InvalidRequest as error:
            outcome = BindResult(str(error), "invalid")
        if not outcome.error:
            self._hint()
        self._metrics.binds.labels(outcome.reason).inc()
        self._record("bind", began, outcome.error)
        return codec.bind_answer(outcome.error)

    def _hint(self) -> None:
        """Log once if the scheduler never requests scores, as with the Aliyun extender's Policy."""
        self._binds_before_hint -= 1
        if self._binds_before_hint == 0 and not self._scored:
            log.warning(
                "verb_never_called",
                verb="prioritize",
                effect="nodes are not ranked by their GPUs; preemption may not consider GPUs either",
                remedy="gpushare scheduler-config prints a configuration with all verbs",
            )

    async def _forward(self, body: bytes) -> BindResult:
        holder = self._leadership.holder
        if holder is None or not holder.address:
            return BindResult("another extender holds the Lease and its address is not known", "no_leader")
        try:
            answer = await self._peers.post(holder.address, f"{EXTENDER_PREFIX}/bind", body)
            error = str(msgspec.json.decode(answer, type=dict[str, str]).get("Error", ""))
        except (ApiError, msgspec.DecodeError) as failure:
            self._metrics.forwarded.labels("error").inc()
            return BindResult(
                f"the extender that holds the Lease ({holder.holder}) did not answer: {failure}", "forward"
            )
        self._metrics.forwarded.labels("error" if error else "ok").inc()
        return BindResult(error, "forwarded")

    def refuse(self, verb: str, reason: str) -> bytes:
        """The answer for a client that may not call."""
        self._record(verb, time.perf_counter(), reason)
        if verb != "bind":
            return verbs.error_answer(verb, reason)
        self._metrics.binds.labels("client").inc()
        return codec.bind_answer(reason)

    def inspect(self, node: str) -> bytes:
        """The inspect document of one node."""
        return msgspec.json.encode(inspect(self._cluster.ledger, node))

    async def inspect_all(self) -> bytes:
        """The inspect document of all nodes."""
        return b'{"nodes":[' + b",".join(await self._inspected.values(self._cluster.ledger)) + b"]}"

    def _record(self, verb: str, began: float, error: str) -> None:
        self._metrics.requests.labels(verb, "error" if error else "ok").inc()
        self._metrics.latency.labels(verb).observe(time.perf_counter() - began)
        if error:
            log.warning("request_refused", verb=verb, error=error)


def _crashed(verb: str, error: Exception) -> VerbResult:
    text = f"internal error: {type(error).__name__}, see the log"
    return VerbResult(verbs.error_answer(verb, text), text)
