"""Caches of objects, filled by watches."""

import msgspec
from structlog.testing import capture_logs

from gpushare.adapters.kube.access import ApiAccess
from gpushare.adapters.kube.client import KubeClient
from gpushare.adapters.kube.metrics_api import AUTHENTICATION, NODES, PODS, DirectoryEntry
from gpushare.errors import ApiError
from gpushare.metricsapi.directory import Directory, exporter_urls
from gpushare.metricsapi.metrics import ApiMetrics
from gpushare.model.changes import Deleted, Upserted
from gpushare.model.selector import parse_selector


def directory() -> Directory:
    return Directory(KubeClient(ApiAccess(host="http://127.0.0.1:1")), PODS, ApiMetrics())


def test_objects_are_known_by_their_namespace() -> None:
    pods = directory()
    pods.changed(
        [Upserted("a/p", DirectoryEntry("a", "p")), Upserted("b/p", DirectoryEntry("b", "p", {"x": "y"}))]
    )
    assert pods.of("b") == {"p": DirectoryEntry("b", "p", {"x": "y"})}
    pods.changed([Upserted("b/p", DirectoryEntry("b", "p", {"x": "z"})), Deleted("a/p"), Deleted("a/never")])
    assert pods.of("a") == {}
    assert pods.of("b")["p"].labels == {"x": "z"}
    assert set(pods.objects) == {"b/p"}


def test_only_needed_fields_of_an_object_are_read() -> None:
    pod = {
        "metadata": {"namespace": "a", "name": "p", "labels": {"x": "y"}, "uid": "1"},
        "spec": {"nodeName": "n", "containers": []},
        "status": {"phase": "Running", "podIP": "10.0.0.1"},
    }
    assert PODS.read(msgspec.convert(pod, PODS.kind)) == (
        "a/p",
        DirectoryEntry("a", "p", {"x": "y"}, "n", "10.0.0.1", running=True),
    )
    node = {"metadata": {"name": "n"}, "spec": {}, "status": {}}
    assert NODES.read(msgspec.convert(node, NODES.kind)) == ("/n", DirectoryEntry("", "n"))
    config = {"metadata": {"name": "c"}, "data": {"a": "b"}}
    assert AUTHENTICATION.read(msgspec.convert(config, AUTHENTICATION.kind)) == ("c", {"a": "b"})


def test_exporters_are_running_pods_with_the_labels_one_for_each_node() -> None:
    labels = {"component": "gpushare-exporter"}
    pods = [
        DirectoryEntry("s", "old", labels, "n", "10.0.0.1", running=False),
        DirectoryEntry("s", "new", labels, "n", "10.0.0.2", running=True),
        DirectoryEntry("s", "twin", labels, "n", "10.0.0.2", running=True),
        DirectoryEntry("s", "six", labels, "m", "fd00::1", running=True),
        DirectoryEntry("s", "waits", labels, "o", "", running=True),
        DirectoryEntry("s", "other", {}, "p", "10.0.0.4", running=True),
    ]
    urls = exporter_urls(pods, parse_selector("component=gpushare-exporter"), 12348)
    assert urls == {"n": "http://10.0.0.2:12348/metrics", "m": "http://[fd00::1]:12348/metrics"}


def test_a_repeated_failure_is_logged_once_and_counted_each_time() -> None:
    metrics = ApiMetrics()
    pods = Directory(KubeClient(ApiAccess(host="http://127.0.0.1:1")), PODS, metrics)
    with capture_logs() as logs:
        for text in ("no answer", "no answer", "forbidden"):
            pods.failed("pods", ApiError(text), 1)
    assert [each["reason"] for each in logs] == ["no answer", "forbidden"]
    count = metrics.registry.get_sample_value
    assert count("gpushare_metrics_api_watch_restarts_total", {"resource": "pods"}) == 3
