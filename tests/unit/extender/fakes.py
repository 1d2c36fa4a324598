"""A FAKE of the API server in memory."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace

from gpushare.contract import ANN_MODE, ANN_SEAL
from gpushare.errors import FENCED, ApiError
from gpushare.model.annotations import claim_of
from gpushare.model.demand import Demand
from gpushare.model.modes import Mode
from gpushare.model.objects import Pod
from gpushare.ports import Fence, KubeEvent, LeaseRecord, StoredKey


def refused(status: int, text: str = "no") -> ApiError:
    """The API server's clear answer."""
    return ApiError(text, status=status)


def silence() -> ApiError:
    """No answer in time."""
    return ApiError("no answer in time", reason="Timeout")


@dataclass(frozen=True)
class Post:
    """One bind that reached the fake."""

    pod: Pod
    node: str
    annotations: dict[str, str]


Script = Callable[["FakeApi", Post], Awaitable[None]]


async def carry_out(api: "FakeApi", post: Post) -> None:
    """Bind the pod. Like a real API server, refuse to bind another pod with its name."""
    found = api.pods.get(post.pod.full_name)
    if found is not None and found.uid != post.pod.uid:
        raise refused(409, f"UID in precondition: {post.pod.uid}, UID in object meta: {found.uid}")
    api.place(post.pod, post.node, post.annotations)


def fail(error: Exception, *, after_effect: bool = False) -> Script:
    """A POST that fails, before or after the API server carried it out."""

    async def script(api: "FakeApi", post: Post) -> None:
        if after_effect:
            await carry_out(api, post)
        raise error

    return script


def gated(gate: asyncio.Event, then: Script = carry_out) -> Script:
    """A POST that takes until the gate opens."""

    async def script(api: "FakeApi", post: Post) -> None:
        await gate.wait()
        await then(api, post)

    return script


@dataclass
class FakeApi:
    """A fake ``ExtenderApi``: pods and a Lease in memory. Binds follow ``script``, then all succeed."""

    pods: dict[str, Pod] = field(default_factory=dict)
    script: deque[Script] = field(default_factory=deque)
    posts: list[Post] = field(default_factory=list)
    reads: int = 0
    read_error: Exception | None = None
    during_reads: deque[Callable[[], None]] = field(default_factory=deque)
    """Called one by one after a pod was read, before the answer arrives."""
    evictions: list[str] = field(default_factory=list)
    """The UIDs of the pods whose eviction has reached the fake."""
    eviction_errors: deque[ApiError | None] = field(default_factory=deque)
    notes: list[KubeEvent] = field(default_factory=list)
    note_errors: deque[ApiError | None] = field(default_factory=deque)
    noted: asyncio.Event = field(default_factory=asyncio.Event)
    lease: LeaseRecord | None = None
    lease_errors: deque[ApiError | None] = field(default_factory=deque)
    lease_verbs: tuple[str, ...] = ("get", "create", "update")
    lease_requests: int = 0
    key: StoredKey | None = field(default_factory=lambda: StoredKey(b"", "2025-01-01T00:00:00Z", "1"))
    key_errors: deque[ApiError | None] = field(default_factory=deque)
    writes: int = 0

    def has(self, *pods: Pod) -> None:
        for pod in pods:
            self.pods[pod.full_name] = pod

    def place(self, pod: Pod, node: str, annotations: Mapping[str, str]) -> Pod:
        demand = pod.demand
        claim = claim_of(annotations, demand) if isinstance(demand, Demand) else None
        mode = Mode(annotations[ANN_MODE]) if ANN_MODE in annotations else None
        bound = replace(pod, node=node, claim=claim, seal=annotations.get(ANN_SEAL), mode=mode)
        self.has(bound)
        return bound

    async def bind(
        self, pod: Pod, node: str, annotations: Mapping[str, str], *, timeout_s: float, fence: Fence
    ) -> None:
        assert timeout_s > 0
        await asyncio.sleep(0)  # as long as it takes to have a connection
        if refusal := fence():
            raise ApiError(refusal, reason=FENCED, unsent=True)
        post = Post(pod, node, dict(annotations))
        self.posts.append(post)
        await (self.script.popleft() if self.script else carry_out)(self, post)

    async def evict(self, pod: Pod, *, timeout_s: float, fence: Fence) -> None:
        assert timeout_s > 0
        await asyncio.sleep(0)  # as long as it takes to have a connection
        if refusal := fence():
            raise ApiError(refusal, reason=FENCED, unsent=True)
        self.evictions.append(pod.uid)
        _next(self.eviction_errors)

    async def read_pod(self, namespace: str, name: str) -> Pod | None:
        self.reads += 1
        if self.read_error:
            raise self.read_error
        found = self.pods.get(f"{namespace}/{name}")
        if self.during_reads:
            self.during_reads.popleft()()
        return found

    async def write_event(self, event: KubeEvent) -> None:
        self.noted.set()
        _next(self.note_errors)
        self.notes.append(event)

    async def read_lease(self) -> LeaseRecord | None:
        self._may("get")
        _next(self.lease_errors)
        return self.lease

    def _may(self, verb: str) -> None:
        self.lease_requests += 1
        if verb not in self.lease_verbs:
            raise refused(403, f"User x cannot {verb} leases")

    async def write_lease(self, record: LeaseRecord) -> LeaseRecord:
        self._may("update" if record.version else "create")
        _next(self.lease_errors)
        if self.lease is not None and record.version != self.lease.version:
            raise refused(409, "the object has been modified")
        self.writes += 1
        # A real API server, too, creates a Lease that a PUT replaces and that does not exist.
        uid = self.lease.uid if self.lease else f"uid-{self.writes}"
        self.lease = replace(record, version=str(self.writes), uid=uid)
        return self.lease

    async def read_key(self) -> StoredKey:
        _next(self.key_errors)
        if self.key is None:
            raise refused(404, "secrets not found")
        return self.key

    async def write_key(self, key: bytes, version: str) -> StoredKey:
        _next(self.key_errors)
        if self.key is None or version != self.key.version:
            raise refused(409, "the object has been modified")
        self.key = StoredKey(key, "2026-01-01T00:00:00Z", f"{version}1")
        return self.key


def _next(errors: deque[ApiError | None]) -> None:
    """Raise the next error of the script, if it is one."""
    error = errors.popleft() if errors else None
    if error is not None:
        raise error


@dataclass
class CatchUp:
    """A catch-up that waits for its gate."""

    gate: asyncio.Event = field(default_factory=asyncio.Event)
    begun: int = 0

    async def __call__(self) -> None:
        self.begun += 1
        await self.gate.wait()


def open_gate() -> CatchUp:
    """One that is done at once."""
    made = CatchUp()
    made.gate.set()
    return made
