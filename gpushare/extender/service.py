"""One request of the scheduler, from body to answer: readiness, the verb, metrics, logs.

Knows nothing of HTTP; ``routes`` does.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from typing import Any, Final, TypeVar

import msgspec
import structlog

from gpushare.adapters.extender_peers import Peers
from gpushare.contract import EXTENDER_PREFIX
from gpushare.errors import ApiError, InvalidRequest
from gpushare.extender import codec, verbs
from gpushare.extender.binder import Binder
from gpushare.extender.cluster import ClusterState
from gpushare.extender.decision import BindResult
from gpushare.extender.metrics import ExtenderMetrics
from gpushare.extender.node_cache import NodeCache
from gpushare.extender.only_replica import Leader
from gpushare.extender.prepared import PreparedScores, expected_request
from gpushare.extender.replay import ReplayScores
from gpushare.extender.replay_verb import question_steps
from gpushare.extender.verbs import Steps, VerbResult
from gpushare.extender.waiting_pods import WaitingPods, decoded
from gpushare.model.objects import Pod
from gpushare.runtime.rate import TokenBucket, refusal_log
from gpushare.scheduling.advice.inspection import inspect, inspect_node
from gpushare.scheduling.ledger import Ledger
from gpushare.scheduling.preemption import possible_victims

T = TypeVar("T")

log = structlog.get_logger()

_BINDS_BEFORE_HINT: Final = 20
"""Enough to distinguish a Policy without the verb from a cluster with one feasible node at first."""
_CATCH_UP_S: Final = 0.03
"""The longest delay of the answer for a pod that waits and still fits on no node."""
_CATCH_UP_SHARE: Final = 0.05
_CATCH_UP_SAVED_S: Final = 1.0
"""Such delays take at most this part of the time, because the scheduler handles one pod after the other."""
_VICTIMS_S: Final = 0.5
_MOST_VICTIMS: Final = 20
"""The victims that are read for one answer, and for how long."""
_MOST_PREEMPTORS: Final = 200
"""The pods that are known as preemptors, the last ones: each waits a moment only."""

_GROUP: Final = b'"schedulingGroup"'
"""In the request of each member of a pod group, and of nearly no other pod."""
_NO_ADDRESS: Final = "another extender holds the Lease and its address is not known"

_AT_ONCE_S: Final = 0.01
"""Most requests take less; the rest of the work is done in slices, among all others."""

Verb = Callable[[bytes, Ledger], Steps]


class SchedulerService:
    """Answers the scheduler; ``shortlist`` is the maximum of nodes that filter returns, 0 for all.

    ``missing`` returns why the caches are incomplete; None once they are complete. ``waiting`` notes the pods
    that filter refuses, None if no room is made for them. ``replay`` scores nodes if it is the policy.
    """

    def __init__(  # noqa: PLR0913 - the parts of the extender that it uses
        self,
        cluster: ClusterState,
        *,
        binder: Binder,
        leadership: Leader,
        peers: Peers,
        metrics: ExtenderMetrics,
        missing: Callable[[], str | None],
        shortlist: int = 0,
        waiting: WaitingPods | None = None,
        replay: ReplayScores | None = None,
    ) -> None:
        self._cluster = cluster
        self._binder = binder
        self._leadership = leadership
        self._peers = peers
        self._metrics = metrics
        self._missing = missing
        self._waiting = waiting
        self._replay = replay
        self._shortlist = shortlist
        self._verbs: dict[str, Verb] = {
            "filter": self._filter_steps,
            "prioritize": verbs.prioritize_steps,
            "preempt": self._preempt_steps,
        }
        self._binds_before_hint = _BINDS_BEFORE_HINT
        self._scored = False
        self._inspected = NodeCache(lambda book: msgspec.json.encode(inspect_node(book)))
        self._inspection: asyncio.Task[bytes] | None = None
        self._prepared: PreparedScores[bytes] = PreparedScores()
        self._comparing: PreparedScores[asyncio.Task[bytes | None]] = PreparedScores()
        self._log_rate = refusal_log()
        self._delays = TokenBucket(_CATCH_UP_SHARE, _CATCH_UP_SAVED_S)
        self._preemptors: deque[str] = deque(maxlen=_MOST_PREEMPTORS)

    def answer(
        self, verb: str, body: bytes, source: str = "", *, forwarded: bool = False
    ) -> bytes | Coroutine[Any, Any, bytes]:
        """The answer of filter, prioritize or preempt for the scheduler at the address ``source``.

        The leader plans groups, because it reserves their places.
        """
        began = time.perf_counter()
        if verb == "filter" and _GROUP in body and not self._leadership.leads:
            return self._filter_of_group(body, began, forwarded=forwarded)
        if verb == "prioritize":
            self._scored = True
            prepared = None if self._missing() else self._prepared.take(body)
            self._metrics.prioritized.labels("prepared" if prepared else "computed").inc()
            if prepared:
                self._record(verb, began, "")
                return prepared
            if self._replay:
                comparing = self._comparing.take(body) or self._compare(self._replay, body, source)
                return self._prioritize_by_replay(comparing, body, source, began)
        steps = self._steps(verb, body)
        # Most requests end here, without a task: kube-scheduler waits for each answer.
        end = self._cluster.slices.run_for(steps, _AT_ONCE_S)
        if end is None:
            return self._answer_later(verb, body, source, began, steps)
        if waiting := self._waits_for_change(end.result):
            return self._retry_for_waiting_pod(waiting, verb, body, source, began)
        if end.result.passed and self._scored:
            # Once the answer is sent.
            asyncio.get_running_loop().call_soon(self._prepare, body, *end.result.passed)
        self._record(verb, began, end.result.error)
        return end.result.answer

    def _prepare(self, body: bytes, pod: Pod, names: list[str]) -> None:
        """Compute the scores that the scheduler will ask for, if that takes but a moment."""
        request = expected_request(body, names)
        if self._replay:
            if request:
                self._comparing.keep(request, self._compare(self._replay, request, ""))
            return
        # The ledger of now: a bind since filter changes the scores that the scheduler will get.
        steps = verbs.scores_steps(pod, names, self._cluster.ledger)
        end = self._cluster.slices.run_for(steps, _AT_ONCE_S) if request else None
        if request and end:
            self._prepared.keep(request, end.result)

    def _steps(self, verb: str, body: bytes) -> Steps:
        if missing := self._missing():
            return VerbResult(verbs.error_answer(verb, missing), missing)
        try:
            return (yield from self._verbs[verb](body, self._cluster.ledger))
        except Exception as error:  # a defect must not stop the daemon
            log.exception("verb_crashed", verb=verb)
            text = f"internal error: {type(error).__name__}, see the log"
            return VerbResult(verbs.error_answer(verb, text), text)

    def _compare(self, replay: ReplayScores, body: bytes, source: str) -> asyncio.Task[bytes | None]:
        return asyncio.create_task(self._replayed(replay, body, source))

    async def _prioritize_by_replay(
        self, comparing: asyncio.Task[bytes | None], body: bytes, source: str, began: float
    ) -> bytes:
        """The answer of prioritize by replay, or by the policy of the pod or the nodes if it has none."""
        answer, error = await comparing, ""
        if answer is None:
            result = await self._run(self._steps("prioritize", body), source)
            answer, error = result.answer, result.error
        self._record("prioritize", began, error)
        return answer

    async def _replayed(self, replay: ReplayScores, body: bytes, source: str) -> bytes | None:
        if self._missing():
            return None
        try:
            question = await self._run(question_steps(body), source)
            scores = await replay.scores(self._cluster.ledger, *question) if question else None
        except Exception:  # a defect must not stop the daemon
            log.exception("replay_failed", effect="scores are those of best fit")
            return None
        return None if scores is None else codec.scores_answer(scores)

    async def _run(self, steps: Generator[None, None, T], source: str) -> T:
        """The result of the steps, at once if they are few."""
        end = self._cluster.slices.run_for(steps, _AT_ONCE_S)
        return end.result if end else await self._cluster.slices.run(steps, source=source)

    def _filter_steps(self, body: bytes, ledger: Ledger) -> Steps:
        """The steps of filter, which note where the pod lacks only free units."""
        result = yield from verbs.filter_steps(
            body,
            ledger,
            most=self._shortlist,
            wait_of=self._cluster.wait_of,
            plans=self._cluster.group_plans,
        )
        # Room for one member of a group would leave the others waiting.
        if self._waiting and result.may_fit_soon and not result.may_fit_soon.group:
            self._waiting.note(result.may_fit_soon.uid, result.short, ledger)
        elif self._waiting and result.passed:
            self._waiting.forget(result.passed[0].uid)
        return result

    def note_waiting(self, body: bytes) -> bytes:
        """Note the pods that another replica was asked about."""
        if self._waiting:
            with suppress(InvalidRequest):
                self._waiting.note_all(decoded(body), self._cluster.ledger)
        return b"{}"

    def _preempt_steps(self, body: bytes, ledger: Ledger) -> Steps:
        """The steps of preempt, which note the pod: the scheduler will try it again."""
        result = yield from verbs.preempt_steps(body, ledger, self._cluster.budgets_of)
        if result.preemptor:
            self._preemptors.append(result.preemptor)
        return result

    async def _answer_later(self, verb: str, body: bytes, source: str, began: float, steps: Steps) -> bytes:
        result = await self._cluster.slices.run(steps, source=source)
        if waiting := self._waits_for_change(result):
            return await self._retry_for_waiting_pod(waiting, verb, body, source, began)
        self._record(verb, began, result.error)
        return result.answer

    def _waits_for_change(self, result: VerbResult) -> Pod | None:
        """The pod that fits on no node, if its answer may be delayed: the scheduler has tried it before."""
        pod = result.may_fit_soon
        if pod is None or self._delays.left < _CATCH_UP_S:
            return None
        # A second filter of a member would begin a new plan of its group.
        if pod.group:
            return None
        tried = any(
            (
                pod.nominated,
                pod.unschedulable,
                self._cluster.pods.get(pod.uid, pod).unschedulable,
                pod.uid in self._preemptors,
            )
        )
        return pod if tried else None

    async def _retry_for_waiting_pod(
        self, pod: Pod, verb: str, body: bytes, source: str, began: float
    ) -> bytes:
        """The response after the extender's watches had time to deliver the event that the scheduler handled.

        The scheduler retries a waiting pod after an event that the extender may receive a moment later: a pod
        is gone, a GPU is healthy again. A rejected pod would wait for another event, five minutes at worst.
        """
        await self._read_victims(pod)
        deadline = time.monotonic() + _CATCH_UP_S
        while True:
            ledger = self._cluster.ledger
            # Asked once more even if nothing has changed yet: the victims may just have been read.
            result = await self._cluster.slices.run(self._steps(verb, body), source=source)
            left_s = deadline - time.monotonic()
            if result.may_fit_soon is None or left_s <= 0:
                break
            if self._cluster.ledger is ledger:
                with suppress(TimeoutError):
                    async with asyncio.timeout(left_s):
                        await self._cluster.next_ledger()
        self._delays.take(time.perf_counter() - began)
        self._record(verb, began, result.error)
        return result.answer

    async def _read_victims(self, pod: Pod) -> None:
        """Read the pods that a pod may have preempted, so that it need not wait for the watch.

        Each deletion of a victim makes the scheduler try again, after the last one for the last time.
        """
        with suppress(TimeoutError, ApiError):
            async with asyncio.timeout(_VICTIMS_S):
                book = self._cluster.ledger.books.get(await self._nominated_node(pod) or "")
                uids = possible_victims(book, pod.priority)[:_MOST_VICTIMS] if book else []
                victims = [self._cluster.pods[uid] for uid in uids if uid in self._cluster.pods]
                await asyncio.gather(*map(self._read_victim, victims))

    async def _nominated_node(self, pod: Pod) -> str | None:
        """The node on which a pod may have preempted others. Raises ApiError.

        The scheduler writes it to the API server before it tries the pod again, but its copy of the pod may
        be older.
        """
        if pod.nominated or pod.uid not in self._preemptors:
            return pod.nominated
        found = await self._binder.unclear.read(pod)
        return found.nominated if found else None

    async def _read_victim(self, victim: Pod) -> None:
        with suppress(ApiError):
            await self._binder.unclear.check(victim)

    @property
    def _follows(self) -> bool:
        return not self._leadership.leads and self._leadership.holder is not None

    def _filter_of_group(
        self, body: bytes, began: float, *, forwarded: bool
    ) -> bytes | Coroutine[Any, Any, bytes]:
        """The leader's answer for a member of a group, or an error while nobody may bind.

        kube-scheduler 1.37 tries a group again at once, a hundred times a second, if a bind of it is refused;
        after an error of filter it waits.
        """
        if self._follows and not forwarded:
            return self._filter_at_leader(body, began)
        error = self._leadership.fence() or ""
        self._record("filter", began, error)
        return verbs.error_answer("filter", error)

    async def _filter_at_leader(self, body: bytes, began: float) -> bytes:
        try:
            answer, error = await self._forward("filter", body), ""
        except ApiError as failure:
            error = str(failure)
            answer = verbs.error_answer("filter", error)
        self._metrics.forwarded.labels("filter", "error" if error else "ok").inc()
        self._record("filter", began, error)
        return answer

    async def bind(self, body: bytes, *, forwarded: bool) -> bytes:
        """Bind here if this replica leads, otherwise forward the request to the leader."""
        began = time.perf_counter()
        try:
            request = verbs.bind_request(body)
            missing = self._missing()
            if missing:
                outcome = BindResult(missing, "not_ready")
            elif forwarded or not self._follows:
                # A forwarded bind is never forwarded again, so that two replicas cannot pass it around.
                outcome = await self._binder.bind(request)
            else:
                outcome = await self._bind_at_leader(body)
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

    async def _bind_at_leader(self, body: bytes) -> BindResult:
        if not self._leader_address:
            return BindResult(_NO_ADDRESS, "no_leader")
        try:
            answer = await self._forward("bind", body)
            error = str(msgspec.json.decode(answer, type=dict[str, str]).get("Error", ""))
        except ApiError as failure:
            self._metrics.forwarded.labels("bind", "error").inc()
            return BindResult(str(failure), "forward")
        except msgspec.DecodeError as failure:
            self._metrics.forwarded.labels("bind", "error").inc()
            return BindResult(self._no_answer(failure), "forward")
        self._metrics.forwarded.labels("bind", "error" if error else "ok").inc()
        return BindResult(error, "forwarded")

    @property
    def _leader_address(self) -> str | None:
        holder = self._leadership.holder
        return holder.address if holder else None

    async def _forward(self, verb: str, body: bytes) -> bytes:
        """The answer of the leader. Raises ApiError, which names the leader."""
        address = self._leader_address
        if not address:
            raise ApiError(_NO_ADDRESS)
        try:
            return await self._peers.post(address, f"{EXTENDER_PREFIX}/{verb}", body)
        except ApiError as failure:
            raise ApiError(self._no_answer(failure)) from failure

    def _no_answer(self, failure: Exception) -> str:
        holder = self._leadership.holder
        name = holder.holder if holder else "unknown"
        return f"the extender that holds the Lease ({name}) did not answer: {failure}"

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
        """The inspect document of all nodes, one for all requests at the same time."""
        if self._inspection is None or self._inspection.done():
            self._inspection = asyncio.create_task(self._cluster.slices.run(self._inspect_steps()))
        # One client that goes away must not end it for the others.
        return await asyncio.shield(self._inspection)

    def _inspect_steps(self) -> Generator[None, None, bytes]:
        nodes = yield from self._inspected.steps(self._cluster.ledger)
        return b"".join((b'{"nodes":[', b",".join(nodes), b"]}"))

    def _record(self, verb: str, began: float, error: str) -> None:
        self._metrics.requests.labels(verb, "error" if error else "ok").inc()
        self._metrics.latency.labels(verb).observe(time.perf_counter() - began)
        if error and self._log_rate.take(verb):
            log.warning("request_refused", verb=verb, error=error)
