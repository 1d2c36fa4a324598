"""The handling of nodes and of lists of unhealthy GPUs."""

from dataclasses import replace
from typing import cast

import pytest
from structlog.testing import capture_logs

from gpushare.adapters.kube.pod_loads import ObservedPod
from gpushare.contract import EVENT_MALFORMED
from gpushare.extender.cluster import ClusterState
from gpushare.extender.events import Explainer
from gpushare.extender.freshness import SyncStatus
from gpushare.extender.metrics import ExtenderMetrics
from gpushare.extender.watches import AllPodsHandler, ConfigMapHandler, NodeHandler, PodHandler
from gpushare.model.changes import Deleted, Upserted
from gpushare.model.modes import Mode
from gpushare.model.objects import WHILE_AGENT_STARTS, Pod
from gpushare.model.resources import Load, Resources
from gpushare.ports import KubeEvent
from gpushare.runtime.events import EventRecorder
from gpushare.scheduling.placement import POLICIES
from tests.support.builders.scheduling import node, pod


class Recorded:
    """A FAKE of the recorder, which keeps the events."""

    def __init__(self) -> None:
        self.events: list[KubeEvent] = []

    def record(self, event: KubeEvent) -> None:
        self.events.append(event)


@pytest.fixture
def recorded() -> Recorded:
    return Recorded()


@pytest.fixture
def sync_status() -> SyncStatus:
    return SyncStatus(ExtenderMetrics())


def node_handler(
    cluster: ClusterState, recorded: Recorded, sync_status: SyncStatus, cgpu_pods: int = 0
) -> NodeHandler:
    return NodeHandler(cluster, cast("EventRecorder", recorded), sync_status, cgpu_pods)


@pytest.mark.parametrize(
    ("mode", "most"), [(Mode.CGPU, 3), (Mode.SHARE, 0), (Mode.CORE_MEM, 0), (Mode.MPS, 0)]
)
def test_only_gpus_of_mode_cgpu_limit_the_number_of_pods(
    sync_status: SyncStatus, recorded: Recorded, mode: Mode, most: int
) -> None:
    cluster = ClusterState()
    handler = node_handler(cluster, recorded, sync_status, cgpu_pods=3)
    handler.changed([Upserted("n", node("n", 14, mode=mode))])
    found = cluster.ledger.books["n"].node
    assert found is not None
    assert found.pods_per_card == most


def test_a_change_of_the_mode_changes_the_number_of_pods_per_gpu(
    sync_status: SyncStatus, recorded: Recorded
) -> None:
    cluster = ClusterState()
    handler = node_handler(cluster, recorded, sync_status, cgpu_pods=3)
    for mode in (Mode.CGPU, Mode.SHARE):
        handler.changed([Upserted("n", node("n", 14, mode=mode))])
    assert cluster.ledger.books["n"].node == node("n", 14)
    handler.changed([Deleted("n")])
    assert "n" not in cluster.ledger.books


def test_a_label_that_names_no_policy_is_in_the_log_and_in_an_event_of_the_node_that_lists_them(
    sync_status: SyncStatus, recorded: Recorded
) -> None:
    handler = node_handler(ClusterState(), recorded, sync_status)
    with capture_logs() as logs:
        handler.changed([Upserted("n", node("n", 14, placement="odd"))])
    assert [entry["event"] for entry in logs] == ["placement_unknown"]
    [event] = recorded.events
    assert (event.reason, event.name, event.warning) == (EVENT_MALFORMED, "n", True)
    assert event.text == (
        f"label ack.node.gpu.placement='odd' is not one of {', '.join(POLICIES)}; the policy of the node is "
        "binpack"
    )


def test_a_label_that_names_no_policy_is_reported_again_only_if_it_changes(
    sync_status: SyncStatus, recorded: Recorded
) -> None:
    handler = node_handler(ClusterState(), recorded, sync_status)
    for units, label in ((14, "odd"), (15, "odd"), (15, "even"), (15, "spread"), (15, None)):
        handler.changed([Upserted("n", node("n", units, placement=label))])
    assert [event.text.split()[1] for event in recorded.events] == [
        "ack.node.gpu.placement='odd'",
        "ack.node.gpu.placement='even'",
    ]


@pytest.mark.parametrize("reason", WHILE_AGENT_STARTS)
def test_a_node_whose_agent_starts_is_no_problem_yet(
    sync_status: SyncStatus, recorded: Recorded, reason: str
) -> None:
    handler = node_handler(ClusterState(), recorded, sync_status)
    with capture_logs() as logs:
        handler.changed([Upserted("n", replace(node("n"), closed=reason))])
        handler.changed([Upserted("n", replace(node("n"), closed="label gpushare.io/mode=odd"))])
    assert [entry["reason"] for entry in logs] == ["label gpushare.io/mode=odd"]


def test_entries_that_name_no_gpu_are_in_the_log_and_in_an_event_of_the_node(
    sync_status: SyncStatus, recorded: Recorded
) -> None:
    handler = ConfigMapHandler(ClusterState(), cast("EventRecorder", recorded), sync_status)
    with capture_logs() as logs:
        handler.changed([Upserted("n", "0,x,GPU-2")])
    assert [(each["event"], each["entries"]) for each in logs] == [
        ("unhealthy_list_unreadable", ("x", "GPU-2"))
    ]
    [event] = recorded.events
    assert (event.reason, event.name) == (EVENT_MALFORMED, "n")
    assert event.text == (
        "ConfigMap kube-system/unhealthy-gpu-n: 'x', 'GPU-2' is not a GPU index; write gpus: 0,2"
    )


def plain(node_name: str | None, *, finished: bool = False, cpu: int = 500) -> ObservedPod:
    """A pod without GPUs."""
    load = Load(node_name, Resources(cpu, 64))
    return ObservedPod(load, finished=finished, chooses=True, created="", managed=None)


class AllPods:
    """The handler of all pods, and the pods that have arrived."""

    def __init__(self, sync_status: SyncStatus) -> None:
        self.cluster = ClusterState()
        recorder = cast("EventRecorder", Recorded())
        explainer = Explainer(self.cluster, recorder)
        self.arrived: list[ObservedPod] = []
        handler = PodHandler(self.cluster, explainer, sync_status, lambda: False)
        self._handler = AllPodsHandler(self.cluster, handler, self.arrived.append)
        self.cluster.change_nodes([Upserted("n", replace(node("n", 14), allocatable=Resources(4000, 4096)))])

    def shown(self, uid: str, observed: ObservedPod) -> None:
        self._handler.changed([Upserted(uid, observed)])

    def deleted(self, uid: str) -> None:
        self._handler.changed([Deleted(uid)])

    @property
    def free_cpu(self) -> int | None:
        found = self.cluster.ledger.free("n")
        return found and found.cpu


def test_pods_without_gpus_take_from_a_node_until_they_end(sync_status: SyncStatus) -> None:
    every = AllPods(sync_status)
    every.shown("p", plain(None))
    every.shown("q", plain("n"))
    assert every.free_cpu == 3500
    every.shown("p", plain("n"))
    assert every.free_cpu == 3000
    every.shown("p", plain("n", finished=True))
    every.deleted("q")
    assert every.free_cpu == 4000
    assert every.cluster.pods == {}


def test_a_pod_without_gpus_arrives_once_when_it_has_its_node(sync_status: SyncStatus) -> None:
    every = AllPods(sync_status)
    for observed in (plain(None), plain("n"), plain("n"), plain("n", finished=True)):
        every.shown("p", observed)
    every.shown("over", plain("n", finished=True))
    assert every.arrived == [plain("n")]


def test_a_pod_with_gpus_arrives_once_when_it_is_seen(sync_status: SyncStatus) -> None:
    every = AllPods(sync_status)
    waiting = replace_managed(plain(None), pod("p"))
    bound = replace_managed(plain("n"), pod("p", at="n", card=0))
    for observed in (waiting, bound, bound):
        every.shown("p", observed)
    assert every.arrived == [waiting]
    assert every.free_cpu == 3500
    every.shown("p", replace_managed(plain("n", finished=True), pod("p", at="n", finished=True)))
    assert every.free_cpu == 4000


def replace_managed(observed: ObservedPod, managed: Pod) -> ObservedPod:
    return observed._replace(managed=managed)
