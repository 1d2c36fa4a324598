"""What the board knows of the cluster at one moment, and what it remembers. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec import Raw

from gpushare.adapters.kube.wire import pod_of
from gpushare.board.health import ControlPlane
from gpushare.board.history import History, appended, point
from gpushare.board.idle import Idle, Owners, observed
from gpushare.board.usage import Live
from gpushare.model.demand import Malformed
from gpushare.model.modes import CGPU_PODS
from gpushare.model.objects import Pod
from gpushare.overview import pod_state
from gpushare.overview.gpu_pods import PodRecord, read_cluster_pod, record_of
from gpushare.overview.node_view import NodeView, views_of
from gpushare.overview.objects import ClusterNode, ClusterPod, PodOwner
from gpushare.overview.occupancy import PodLoad, load_of


@dataclass(frozen=True, slots=True)
class BoardPod:
    """A pod, decoded once: ``record`` and ``load`` once it is bound, ``details`` until then.

    ``state`` is the word that ``kubectl get pods`` shows, ``runs`` whether its containers run. ``core`` is
    None for a pod without units, ``record`` for one without GPUs.
    """

    namespace: str
    name: str
    owner: PodOwner
    state: str
    runs: bool
    created: str
    record: PodRecord | None
    core: Pod | None
    details: ClusterPod | None
    load: PodLoad | None = None


def read_board_pod(raw: Raw | bytes) -> BoardPod | Malformed | None:
    """A pod; None if it is unbound and requests no units: it takes nothing, and does not wait for a GPU."""
    wire = read_cluster_pod(raw)
    if isinstance(wire, Malformed):
        return wire
    core = pod_of(wire)
    record = record_of(wire, core) if wire.spec.node_name else None
    load = load_of(wire)
    if isinstance(record, Malformed):
        return record
    if core is None and load is None:
        return None
    meta = wire.metadata
    state = pod_state.state_of(wire) or "Unknown"
    return BoardPod(
        meta.namespace,
        meta.name,
        wire.owner,
        state,
        pod_state.runs(wire.status.phase, state),
        meta.creation_timestamp or "",
        record,
        core,
        None if record or core is None else wire,
        load,
    )


@dataclass(frozen=True, slots=True)
class Lost:
    """Since when the API server has not been heard, and why."""

    since: float
    reason: str


@dataclass(frozen=True, slots=True)
class Origin:
    """What is the same for the whole run: the URL of the API server, and when the board was started."""

    cluster: str
    started: float


@dataclass(frozen=True, slots=True)
class BoardState:
    """The cluster at one moment. Made by ``state_of``.

    ``nodes`` and ``pods`` are the last ones known; ``lost`` is set if they are of an earlier time.
    ``control_plane`` is None before it was read. ``notes`` are limits of what could be read.
    """

    origin: Origin
    at: float
    nodes: tuple[ClusterNode, ...]
    pods: tuple[BoardPod, ...]
    views: tuple[NodeView, ...]
    problems: tuple[str, ...]
    live: Live
    lost: Lost | None = None
    control_plane: ControlPlane | None = None
    unhealthy: Mapping[str, frozenset[int]] = field(default_factory=dict)
    cgpu_pods: int = CGPU_PODS
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BoardMemory:
    """What is remembered from one state to the next."""

    history: History = ()
    idle: Idle = field(default_factory=Idle)


def state_of(
    origin: Origin,
    at: float,
    nodes: Iterable[ClusterNode | Malformed],
    pods: Iterable[BoardPod | Malformed],
    live: Live,
    **more: Any,
) -> BoardState:
    """The state of these objects; ``more`` are the other fields."""
    items = [*nodes, *pods]
    found = tuple(each for each in items if isinstance(each, ClusterNode))
    running = tuple(each for each in items if isinstance(each, BoardPod))
    views = tuple(views_of(found, (each.record for each in running if each.record)))
    problems = [each.problem for each in items if isinstance(each, Malformed)]
    problems += [problem for view in views for problem in view.problems]
    return BoardState(origin, at, found, running, views, tuple(problems), live, **more)


def advanced(memory: BoardMemory, seen: BoardState) -> BoardMemory:
    """What is remembered after the state."""
    now = point(seen.at, seen.views, seen.live, lost=seen.lost is not None)
    return BoardMemory(appended(memory.history, now), observed(memory.idle, seen.live, owners_of(seen)))


def owners_of(seen: BoardState) -> Owners:
    """The owners of the pods that run. The others have memory too, and cannot use it."""
    return {(pod.namespace, pod.name): str(pod.owner) for pod in seen.pods if pod.runs and pod.record}
