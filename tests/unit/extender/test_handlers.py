"""Reasons for resources that are not listed yet, and the handling of nodes and lists of unhealthy GPUs."""

from typing import cast

import pytest
from structlog.testing import capture_logs

from gpushare.contract import EVENT_MALFORMED
from gpushare.extender.cluster import ClusterState
from gpushare.extender.handlers import ConfigMapHandler, NodeHandler, SyncStatus
from gpushare.extender.metrics import ExtenderMetrics
from gpushare.model.changes import Deleted, Upserted
from gpushare.model.modes import Mode
from gpushare.ports import KubeEvent
from gpushare.runtime.events import EventRecorder
from tests.support.builders.scheduling import node
from tests.unit.extender.fakes import refused


@pytest.fixture
def sync_status() -> SyncStatus:
    return SyncStatus(ExtenderMetrics())


def test_at_first_both_are_missing(sync_status: SyncStatus) -> None:
    assert sync_status.missing() == "the extender has not listed nodes and pods yet"
    assert not sync_status.synced_once.is_set()


def test_the_one_that_is_missing_is_named_with_the_reason_that_the_api_gave(sync_status: SyncStatus) -> None:
    sync_status.synced("pods")
    sync_status.failed("nodes", refused(403, "cannot list nodes"), 1.0)
    assert sync_status.missing() == "the extender has not listed nodes yet: cannot list nodes"


def test_both_reasons_are_named(sync_status: SyncStatus) -> None:
    sync_status.failed("pods", refused(403, "no pods"), 1.0)
    sync_status.failed("nodes", refused(403, "no nodes"), 1.0)
    assert sync_status.missing() == "the extender has not listed nodes and pods yet: no nodes; no pods"


def test_config_maps_are_not_waited_for(sync_status: SyncStatus) -> None:
    sync_status.failed("configmaps", refused(403, "no"), 1.0)
    sync_status.synced("nodes")
    sync_status.synced("pods")
    assert sync_status.missing() is None
    assert sync_status.synced_once.is_set()


@pytest.mark.parametrize(
    ("resource", "status"),
    [("configmaps", 403), ("secrets", 403), ("poddisruptionbudgets", 403), ("poddisruptionbudgets", 404)],
)
def test_a_missing_optional_permission_is_logged_once_as_degraded(
    sync_status: SyncStatus, resource: str, status: int
) -> None:
    """The API servers before 1.21 do not serve policy/v1 and answer 404."""
    with capture_logs() as logs:
        for _ in range(2):
            sync_status.failed(resource, refused(status, "no"), 1.0)
    assert [(entry["event"], entry["right"]) for entry in logs] == [("degraded_mode", resource)]


@pytest.mark.parametrize(("resource", "status"), [("nodes", 403), ("configmaps", 500)])
def test_other_errors_are_not_reported(sync_status: SyncStatus, resource: str, status: int) -> None:
    with capture_logs() as logs:
        sync_status.failed(resource, refused(status, "no"), 1.0)
    assert [(entry["event"], entry["resource"]) for entry in logs] == [("watch_restarted", resource)]


def test_an_error_after_the_list_makes_nothing_missing(sync_status: SyncStatus) -> None:
    sync_status.synced("nodes")
    sync_status.synced("pods")
    sync_status.failed("pods", refused(500, "etcd is away"), 1.0)
    assert sync_status.missing() is None


@pytest.mark.parametrize(
    ("mode", "most"), [(Mode.CGPU, 3), (Mode.SHARE, 0), (Mode.CORE_MEM, 0), (Mode.MPS, 0)]
)
def test_only_gpus_of_mode_cgpu_limit_the_number_of_pods(
    sync_status: SyncStatus, mode: Mode, most: int
) -> None:
    cluster = ClusterState()
    NodeHandler(cluster, sync_status, cgpu_pods=3).changed([Upserted("n", node("n", 14, mode=mode))])
    found = cluster.ledger.books["n"].node
    assert found is not None
    assert found.pods_per_card == most


def test_a_change_of_the_mode_changes_the_number_of_pods_per_gpu(sync_status: SyncStatus) -> None:
    cluster = ClusterState()
    handler = NodeHandler(cluster, sync_status, cgpu_pods=3)
    for mode in (Mode.CGPU, Mode.SHARE):
        handler.changed([Upserted("n", node("n", 14, mode=mode))])
    assert cluster.ledger.books["n"].node == node("n", 14)
    handler.changed([Deleted("n")])
    assert "n" not in cluster.ledger.books


def test_problems_of_a_node_are_logged_once(sync_status: SyncStatus) -> None:
    handler = NodeHandler(ClusterState(), sync_status, cgpu_pods=3)
    with capture_logs() as logs:
        for _ in range(2):
            handler.changed([Upserted("n", node("n", 14, mode=Mode.CGPU, placement="odd"))])
    assert [entry["event"] for entry in logs] == ["placement_unknown"]


class Recorded:
    """A FAKE of the recorder, which keeps the events."""

    def __init__(self) -> None:
        self.events: list[KubeEvent] = []

    def record(self, event: KubeEvent) -> None:
        self.events.append(event)


def test_entries_that_name_no_gpu_are_in_the_log_and_in_an_event_of_the_node(
    sync_status: SyncStatus,
) -> None:
    recorded = Recorded()
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
