"""What a move from ACK's components finds: ack-cgpu as the documents of ACK list it, and ack-ai-installer."""

from typing import Any

import pytest

from gpushare.cli.migrate import hami
from gpushare.cli.migrate.findings import FindingEffect, System, migration
from tests.support.builders.api_objects import pod

Json = dict[str, Any]
ACS = "registry.cn-beijing.aliyuncs.com/acs/some-image:v1"


def daemon_set(name: str, image: str = ACS) -> Json:
    spec = {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}
    return {"kind": "DaemonSet", "metadata": {"name": name, "namespace": "kube-system"}, "spec": spec}


def found(*objects: Json) -> list[tuple[str, str, str]]:
    """Subject, effect and text of the findings about ACK."""
    every = migration(objects, hami.Units()).findings
    return [(each.subject, str(each.verdict), each.text) for each in every if each.system is System.ACK]


def two_containers(on: str | None, **annotations: str) -> Json:
    made = pod("p", on, 1, namespace="ml")
    made["kind"] = "Pod"
    made["metadata"]["annotations"] = {key.replace("__", "."): text for key, text in annotations.items()}
    second = {"name": "b", "resources": {"limits": {"aliyun.com/gpu-mem": "7"}}}
    made["spec"]["containers"].append(second)
    return made


@pytest.mark.parametrize(
    "name",
    ["cgpu-installer", "device-plugin-evict-ds", "device-plugin-recover-ds", "gpushare-device-plugin-ds"],
)
def test_the_daemon_sets_of_ack_cgpu_are_deleted_first(name: str) -> None:
    [(subject, effect, text)] = found(daemon_set(name))
    assert (subject, effect) == (f"DaemonSet kube-system/{name}", FindingEffect.CHANGES)
    assert text.startswith("delete it first (helm uninstall cgpu -n kube-system): it ")


def test_objects_of_gpushare_with_the_same_names_are_no_finding() -> None:
    assert found(daemon_set("cgpu-installer", "registry.example.com/gpushare/isolation:v0.1.0")) == []


def test_ack_ai_installer_is_known_by_the_names_of_its_daemon_sets() -> None:
    [(_, _, text)] = found(daemon_set("gpushare-core-device-plugin-ds"))
    assert text.startswith("delete ack-ai-installer first")


@pytest.mark.parametrize("label", ["ack.node.gpu.schedule=core_mem", "ack.node.gpu.placement=spread"])
def test_labels_of_nodes_stay(label: str) -> None:
    key, _, value = label.partition("=")
    node = {"kind": "Node", "metadata": {"name": "n", "labels": {key: value}}}
    assert found(node) == [("Node n", "stays", f"label {label}")]


def test_a_pod_whose_containers_have_different_gpus_keeps_them() -> None:
    placed = two_containers("n", scheduler__framework__gpushare__allocation='{"0":{"1":1},"1":{"3":7}}')
    texts = [text for _, _, text in found(placed)]
    assert texts[0].startswith("it keeps 1 units of GPU 1, 7 units of GPU 3 until it is replaced; here the ")
    assert texts[1].startswith("containers main, b could have a GPU each; here the containers of a pod share")


@pytest.mark.parametrize("allocation", ['{"0":{"1":1},"1":{"1":7}}', '{"0":{"1":9},"1":{"3":7}}', "{"])
def test_one_gpu_or_an_allocation_that_contradicts_the_limits_is_no_finding(allocation: str) -> None:
    assert found(two_containers("n", scheduler__framework__gpushare__allocation=allocation)) == []


def test_containers_of_one_pod_are_no_finding_without_ack() -> None:
    assert found(two_containers(None)) == []
