"""Serves the usage API: the pods of a namespace, why one waits, and what would fit.

A request costs by the pods of its namespace. What concerns the whole cluster is made once and shared, in
slices of the event loop, or in a thread where it cannot be sliced.
"""

import asyncio
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Generator, Mapping
from dataclasses import asdict, replace
from functools import partial
from http import HTTPStatus
from typing import Any, Final

import msgspec

from gpushare.adapters.kube.wire import any_pod_of
from gpushare.errors import ApiError, InvalidRequest
from gpushare.metricsapi import documents, tables
from gpushare.metricsapi.books import Books, nodes_of
from gpushare.metricsapi.directory import PodDirectory
from gpushare.metricsapi.documents import failure
from gpushare.metricsapi.node_pages import NodePages
from gpushare.metricsapi.paths import UsageKind, UsageRequest
from gpushare.metricsapi.selection import selector_of
from gpushare.metricsapi.watched import PodEntry
from gpushare.model.demand import IMPLAUSIBLE
from gpushare.model.quantity import parse_quantity
from gpushare.model.usage_documents import EXPLANATION, USAGE_VERSION, GpuFitList, GpuPod, GpuPodList
from gpushare.overview.explain.answer import PodFacts, answer
from gpushare.overview.explain.for_tenants import for_tenant, surroundings_for
from gpushare.overview.fits import fit_steps
from gpushare.overview.objects import ClusterPod
from gpushare.overview.occupancy import PodLoad
from gpushare.overview.pod_usage import NodeFacts, PodGpus, UsagePod, gpu_pod, node_facts_of
from gpushare.overview.surroundings import surroundings_of
from gpushare.runtime.cache import FetchCache
from gpushare.runtime.fairness import TimeSlices
from gpushare.runtime.http import Request, Response
from gpushare.scheduling.book import reserved_shares

_KEEP_S: Final = 1.0
"""For what concerns the whole cluster."""
_MOST_GPUS: Final = 128
_DIGITS: Final = re.compile(r"[0-9]{1,9}", re.ASCII)
_LOST_S: Final = 15.0
"""A watch that ends is usually back at once."""
_PATIENCE_S: Final = 30.0
"""The API server gives up a request after 60 s."""
_MOST_WAITING: Final = 8
"""Explanations of one namespace: more would keep the other namespaces waiting, about a second each."""
_encode = msgspec.json.Encoder().encode

Parameters = Mapping[str, list[str]]
PodOf = Callable[[str, str], Awaitable[ClusterPod | None]]
"""Reads a pod from the API server, by namespace and name. Raises ApiError."""
Form = Callable[[GpuPod], Any]
"""A pod as an item of a list, or as a row of a table."""
Settings = Callable[[], Awaitable[tuple[str, ...]]]
"""Brings the settings of the books up to date, and returns what could not be read."""


class UsageService:
    """``pod_of`` reads one pod; ``refresh`` updates what the books need besides the watches.

    ``lost_s`` are the seconds since the API server was last heard, 0 while it is.
    """

    def __init__(
        self,
        pods: PodDirectory,
        books: Books,
        pages: NodePages,
        slices: TimeSlices,
        *,
        pod_of: PodOf,
        refresh: Settings,
        lost_s: Callable[[], float],
    ) -> None:
        self._pods = pods
        self._books = books
        self._pages = pages
        self._slices = slices
        self._pod_of = pod_of
        self._refresh = refresh
        self._lost_s = lost_s
        self._fits: FetchCache[tuple[int, int], GpuFitList] = FetchCache(self._fits_of, _KEEP_S)
        self._explanations: FetchCache[tuple[str, str], Response] = FetchCache(self._explained, _KEEP_S)
        self._explaining = asyncio.Semaphore(1)
        self._waiting: Counter[str] = Counter()

    async def respond(self, request: Request, target: UsageRequest, parameters: Parameters) -> Response:
        """The response to an allowed GET request."""
        if _is_set(parameters, "watch"):
            text = f"{target.kind} cannot be watched: ask again every few seconds, as with kubectl get"
            return failure(HTTPStatus.METHOD_NOT_ALLOWED, text)
        as_table = tables.wants_table(request.headers.get(b"accept", b""))
        try:
            match target.kind:
                case UsageKind.PODS:
                    return await self._gpu_pods(target, parameters, as_table=as_table)
                case UsageKind.EXPLANATION:
                    return await self._explanation(target)
                case UsageKind.FITS:
                    return await self._gpu_fits(parameters, as_table=as_table)
        except InvalidRequest as error:
            return failure(HTTPStatus.BAD_REQUEST, str(error))
        except ApiError as error:
            return failure(HTTPStatus.SERVICE_UNAVAILABLE, f"the API server cannot be read: {error}")

    # --- pods -----------------------------------------------------------------------------------

    async def _gpu_pods(self, target: UsageRequest, parameters: Parameters, *, as_table: bool) -> Response:
        selector = selector_of(parameters, "labelSelector")
        if _is_set(parameters, "fieldSelector"):
            raise InvalidRequest("fieldSelector is not supported: select by name, or with labelSelector")
        known = self._pods.of(target.namespace)
        if target.name:
            entry = known.get(target.name)
            if not isinstance(entry, PodEntry) or entry.usage is None:
                return _no_pod(target, exists=entry is not None)
        chosen = [
            entry.usage
            for name, entry in sorted(known.items())
            if isinstance(entry, PodEntry)
            and entry.usage
            and target.name in ("", name)
            and selector(entry.labels)
        ]
        form = partial(tables.pod_row, now=time.time()) if as_table else _itself
        found, silent = await self._encoded(target.namespace, chosen, form)
        if as_table:
            return Response(_encode(tables.pod_table(found)))
        if target.name:
            return Response(bytes(found[0]))
        notes = (f"the exporter of node {name} does not answer" for name in silent)
        return Response(_list_of(found, (*self._of_before(), *notes)))

    def _of_before(self) -> tuple[str, ...]:
        """A note if pods and nodes are those of an earlier time."""
        lost_s = self._lost_s()
        if lost_s < _LOST_S:
            return ()
        return (f"the API server has not been heard for {lost_s:.0f} s: pods and nodes are as of then",)

    async def _encoded(
        self, namespace: str, pods: Collection[UsagePod], form: Form
    ) -> tuple[list[msgspec.Raw], list[str]]:
        """The documents of the pods in this form, as JSON, and the nodes whose exporters do not answer."""
        nodes = {pod.core.node for pod in pods if pod.core.node and not pod.core.finished}
        measured = await self._pages.of(nodes, namespace)
        found = await self._slices.run(self._pod_steps(pods, measured, form))
        return found, sorted(nodes - measured.keys())

    def _pod_steps(
        self, pods: Collection[UsagePod], measured: Mapping[str, PodGpus], form: Form
    ) -> Generator[None, None, list[msgspec.Raw]]:
        facts: dict[str, NodeFacts] = {}
        found: list[msgspec.Raw] = []
        for pod in pods:
            name = pod.core.node or ""
            node = self._books.nodes.get(name)
            if node and name not in facts:
                facts[name] = node_facts_of(node)
            document = gpu_pod(pod, facts.get(name), self._indexes(pod), measured.get(name))
            found.append(msgspec.Raw(_encode(form(document))))
            yield
        return found

    def _indexes(self, pod: UsagePod) -> list[int] | None:
        """The GPUs of the pod, as the ledger counts them; None if they are unknown."""
        book = self._books.of_node(pod.core.node) if pod.core.node else None
        reservation = book.reservations.get(pod.core.uid) if book else None
        if book is None or book.node is None or reservation is None:
            return None
        shares = reserved_shares(reservation, book.node)
        return None if shares is None else [index for index, _ in shares]

    # --- explanations ---------------------------------------------------------------------------

    async def _explanation(self, target: UsageRequest) -> Response:
        try:
            async with asyncio.timeout(_PATIENCE_S):
                return await self._explanations.get((target.namespace, target.name))
        except TimeoutError:
            return _busy("too many pods", f"ask for {target.name} again in a minute")

    async def _explained(self, which: tuple[str, str]) -> Response:
        namespace, name = which
        if self._waiting[namespace] >= _MOST_WAITING:
            which_pods = f"{_MOST_WAITING} pods of namespace {namespace}"
            return _busy(which_pods, f"ask for {name} again in a few seconds")
        self._waiting[namespace] += 1
        try:
            return await self._explained_in_turn(namespace, name)
        finally:
            self._waiting[namespace] -= 1
            self._waiting += Counter()  # forgets namespaces without any

    async def _explained_in_turn(self, namespace: str, name: str) -> Response:
        details = await self._pod_of(namespace, name)
        if details is None:
            return failure(HTTPStatus.NOT_FOUND, f"there is no pod {name} in namespace {namespace}")
        facts = PodFacts(any_pod_of(details), details)
        async with self._explaining:
            if facts.pod.managed and not facts.pod.gated:
                notes = (*self._of_before(), *await self._refresh())
                books = await self._books.named_for(namespace, self._nodes_with_pods_of(namespace))
                facts = PodFacts(facts.pod, details, books, dict(self._books.nodes), notes)
            # A second for thousands of nodes: pure Python in a thread, which gives way every 5 ms.
            return await asyncio.to_thread(_explanation_of, namespace, name, facts, self._loads())

    def _loads(self) -> list[PodLoad]:
        """The bound pods of all namespaces."""
        rows = self._pods.objects.values()
        return [each.load for each in rows if isinstance(each, PodEntry) and each.load]

    def _nodes_with_pods_of(self, namespace: str) -> set[str]:
        """The nodes that have pods of the namespace, or to which one is nominated."""
        found: set[str] = set()
        for entry in self._pods.of(namespace).values():
            found.add(entry.node)
            if isinstance(entry, PodEntry) and entry.usage:
                found |= nodes_of(entry.usage.core)
        return found

    # --- what fits ------------------------------------------------------------------------------

    async def _gpu_fits(self, parameters: Parameters, *, as_table: bool) -> Response:
        units = _number(parameters, "units", IMPLAUSIBLE - 1)
        gpus = _number(parameters, "gpus", _MOST_GPUS)
        fits = await self._fits.get((units, gpus))
        if as_table:
            return documents.json_response(tables.fit_table(fits))
        return Response(_encode(fits))

    async def _fits_of(self, asked: tuple[int, int]) -> GpuFitList:
        notes = (*self._of_before(), *await self._refresh())
        rooms = await self._books.rooms()
        found = await self._slices.run(fit_steps(rooms, *asked))
        return msgspec.structs.replace(found, notes=notes)


def _explanation_of(namespace: str, name: str, facts: PodFacts, loads: list[PodLoad]) -> Response:
    around = surroundings_for(surroundings_of(loads, [facts.details]), facts.details)
    found = for_tenant(answer(replace(facts, around=around)))
    document: dict[str, Any] = {
        "apiVersion": USAGE_VERSION,
        "kind": EXPLANATION,
        "metadata": {"name": name, "namespace": namespace},
        **asdict(found),
        "state": str(found.state),
    }
    return Response(_encode(document))


def _itself(pod: GpuPod) -> GpuPod:
    return pod


def _list_of(pods: Collection[msgspec.Raw], notes: tuple[str, ...]) -> bytes:
    """The GpuPodList with these items, which are encoded already."""
    return _encode({**msgspec.to_builtins(GpuPodList(notes=notes)), "items": pods})


def _no_pod(target: UsageRequest, *, exists: bool) -> Response:
    where = f"in namespace {target.namespace}"
    if exists:
        text = f"pod {target.name} {where} requests no units of GPU memory: kubectl get pod shows it"
    else:
        text = f"there is no pod {target.name} {where}"
    return failure(HTTPStatus.NOT_FOUND, text)


def _busy(pods: str, way_out: str) -> Response:
    return failure(HTTPStatus.TOO_MANY_REQUESTS, f"{pods} are being explained: {way_out}")


def _is_set(parameters: Parameters, key: str) -> bool:
    return any(each not in ("", "0", "false") for each in parameters.get(key, ()))


def _number(parameters: Parameters, key: str, most: int) -> int:
    """The number from 1 to ``most``, 1 if it is not given. Raises InvalidRequest."""
    text = parameters.get(key, ["1"])[-1]
    if _DIGITS.fullmatch(text) and 1 <= int(text) <= most:
        return int(text)
    raise InvalidRequest(f"{key}={text!r} is not a number from 1 to {most}{_suffix(key, text)}")


def _suffix(key: str, text: str) -> str:
    """The way out for the usual mistake, an amount like 4Gi."""
    try:
        has_suffix = key == "units" and not text.isdigit() and parse_quantity(text) > 0
    except InvalidRequest:
        return ""
    return ": units are GiB by default, so write 4 for 4Gi" if has_suffix else ""
