"""The CPU and memory that pods request, read from objects of the API."""

from typing import Any

import msgspec
import pytest

from gpushare.adapters.kube.pod_loads import LoadedPod, ObservedPod, observed_pod
from gpushare.contract import RESOURCE_MEM, RESOURCE_WHOLE_GPU
from gpushare.model.resources import Load, Resources


def observed(spec: dict[str, Any], status: dict[str, Any] | None = None, **meta: Any) -> ObservedPod:
    document = {"metadata": {"uid": "u", **meta}, "spec": spec, "status": status or {}}
    uid, found = observed_pod(msgspec.convert(document, LoadedPod))
    assert uid == "u"
    return found


def requested(spec: dict[str, Any]) -> Resources:
    return observed(spec).load.requested


def container(restart: str | None = None, **requests: Any) -> dict[str, Any]:
    return {"name": "c", "restartPolicy": restart, "resources": {"requests": requests}}


def limited(**limits: Any) -> dict[str, Any]:
    return {"containers": [{"name": "c", "resources": {"limits": limits}}]}


@pytest.mark.parametrize(
    ("spec", "total"),
    [
        ({}, (0, 0)),
        ({"containers": [{"name": "c"}]}, (0, 0)),
        ({"containers": [container(cpu="1500m", memory="1Gi")]}, (1500, 1024)),
        ({"containers": [container(cpu=2, memory=2**20)]}, (2000, 1)),
        # Rounded up, so that a node never seems to have more than it has.
        ({"containers": [container(cpu="100u", memory="1M")]}, (1, 1)),
        (
            {
                "initContainers": [container("Always", cpu="100m", memory="8Mi"), container(cpu="1")],
                "containers": [container(cpu="500m", memory="64Mi")],
            },
            (1100, 72),
        ),
        ({"containers": [container(cpu="1")], "overhead": {"cpu": "250m", "memory": "120Mi"}}, (1250, 120)),
        # Requests of the pod as a whole replace those of its containers, each resource for itself.
        (
            {
                "containers": [container(cpu="1", memory="64Mi")],
                "resources": {"requests": {"cpu": "3"}},
                "overhead": {"cpu": "250m"},
            },
            (3250, 64),
        ),
        ({"containers": [container(cpu="1", memory="1Gi", **{"hugepages-2Mi": "4Mi"})]}, (1000, 1024)),
    ],
)
def test_the_requests_of_a_pod_are_those_that_kube_scheduler_counts(
    spec: dict[str, Any], total: tuple[int, int]
) -> None:
    assert requested(spec) == total


@pytest.mark.parametrize("amount", ["much", True, [], {"a": 1}])
def test_requests_with_an_amount_that_is_no_quantity_count_as_none(amount: Any) -> None:
    assert requested({"containers": [container(cpu=amount), container(memory="1Gi")]}) == (0, 0)


@pytest.mark.parametrize(
    ("phase", "finished"), [("Running", False), ("Pending", False), ("Succeeded", True), ("Failed", True)]
)
def test_a_pod_is_on_its_node_until_it_has_finished(phase: str, *, finished: bool) -> None:
    found = observed({"nodeName": "n"}, {"phase": phase})
    assert (found.load.node, found.finished) == ("n", finished)


def test_a_pod_without_our_resources_has_a_load_only() -> None:
    found = observed({"containers": [container(cpu=1)]})
    assert found == ObservedPod(
        Load(None, Resources(1000, 0)), finished=False, chooses=True, created="", managed=None
    )


def test_a_pod_with_our_resources_is_known_as_a_whole() -> None:
    found = observed(limited(**{RESOURCE_MEM: 4}), creationTimestamp="2026-11-29T08:00:00Z")
    assert found.managed is not None
    assert (found.managed.uid, found.created) == ("u", "2026-11-29T08:00:00Z")


@pytest.mark.parametrize("kind", ["DaemonSet", "Node"])
def test_the_node_of_a_pod_that_belongs_to_it_is_no_choice(kind: str) -> None:
    owner = {"kind": kind, "name": "n", "uid": "o", "controller": True}
    assert not observed({}, ownerReferences=[owner]).chooses
    assert observed({}, ownerReferences=[owner | {"controller": False}]).chooses


@pytest.mark.parametrize(("gpus", "chooses"), [(0, True), ("0", True), (1, False), ("8", False)])
def test_a_pod_with_whole_gpus_goes_to_other_nodes(gpus: Any, *, chooses: bool) -> None:
    assert observed(limited(**{RESOURCE_WHOLE_GPU: gpus})).chooses is chooses
