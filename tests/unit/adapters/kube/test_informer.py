"""Mirrors of watched objects."""

from structlog.testing import capture_logs

from gpushare.adapters.kube.access import ApiAccess
from gpushare.adapters.kube.agent_resources import local_node
from gpushare.adapters.kube.client import KubeClient
from gpushare.adapters.kube.informer import Informer
from gpushare.errors import ApiError
from gpushare.model.changes import Deleted, Upserted


def test_a_mirror_keeps_its_objects_and_logs_a_problem_once() -> None:
    mirror: Informer[str] = Informer(KubeClient(ApiAccess(host="http://127.0.0.1:9")), local_node("n"))  # type: ignore[arg-type]
    assert mirror.latest(60) is None
    mirror.changed([Upserted("a", "1"), Upserted("b", "2"), Upserted("a", "3"), Deleted("b"), Deleted("c")])
    mirror.synced("nodes")
    assert mirror.latest(60) == ("3",)
    with capture_logs() as reported:
        for _ in range(2):
            mirror.failed("nodes", ApiError("forbidden"), 1)
    assert [each["reason"] for each in reported] == ["forbidden"]
