"""Reasons for resources that are not listed yet, and what is missing without optional ones."""

import pytest
from structlog.testing import capture_logs

from gpushare.extender.freshness import SyncStatus
from gpushare.extender.metrics import ExtenderMetrics
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
