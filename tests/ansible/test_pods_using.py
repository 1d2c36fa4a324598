"""Which pods are evicted before the GPUs of a node change."""

from typing import Any

from ansible_collections.gpushare.nodes.plugins.plugin_utils.pods_using import (
    classify,
    full_name,
    with_emptydir,
)

GPUS = ["nvidia.com/gpu", "aliyun.com/gpu-mem"]
REPLICA_SET = [{"kind": "ReplicaSet", "controller": True}]


def pod(name: str, *, phase: str = "Running", part: str = "containers", **metadata: Any) -> dict[str, Any]:
    asked = {"name": "c", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    return {
        "metadata": {"namespace": "d", "name": name, **metadata},
        "spec": {"containers": [{"name": "plain"}], part: [asked]},
        "status": {"phase": phase},
    }


def names(*pods: dict[str, Any]) -> dict[str, list[str]]:
    return {kind: [full_name(each) for each in found] for kind, found in classify(pods, GPUS).items()}


def test_pods_with_a_controller_go_and_others_are_bare() -> None:
    made = names(
        pod("a", ownerReferences=REPLICA_SET), pod("b"), pod("c", ownerReferences=[{"kind": "Node"}])
    )
    assert made == {"go": ["d/a"], "bare": ["d/b", "d/c"], "stay": []}


def test_pods_of_daemonsets_and_static_pods_stay() -> None:
    daemon = pod("a", ownerReferences=[{"kind": "DaemonSet", "controller": True}])
    static = pod("b", annotations={"kubernetes.io/config.mirror": "x"}, ownerReferences=[{"kind": "Node"}])
    assert names(daemon, static) == {"go": [], "bare": [], "stay": ["d/a", "d/b"]}


def test_init_containers_count_and_finished_pods_and_pods_without_gpus_do_not() -> None:
    early = pod("a", part="initContainers", ownerReferences=REPLICA_SET)
    plain = {"metadata": {"namespace": "d", "name": "p"}, "spec": {"containers": [{"name": "c"}]}}
    assert names(early, pod("b", phase="Succeeded"), pod("c", phase="Failed"), plain)["go"] == ["d/a"]


def test_without_resources_every_pod_is_selected() -> None:
    plain = {"metadata": {"namespace": "d", "name": "p"}, "spec": {"containers": [{"name": "c"}]}}
    assert [full_name(each) for each in classify([plain], [])["bare"]] == ["d/p"]


def test_pods_with_an_emptydir_are_found() -> None:
    lossy = {**pod("a"), "spec": {"containers": [], "volumes": [{"name": "v", "emptyDir": {}}]}}
    assert [full_name(each) for each in with_emptydir([lossy, pod("b")])] == ["d/a"]
