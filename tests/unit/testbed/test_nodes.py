"""Simulated nodes, their pods, and kwok's stages with brakes."""

import json
from pathlib import Path

import pytest
import yaml

from gpushare import contract
from gpushare.errors import ConfigError
from testbed.control_plane.nodes import Card, SimNode, card_list, gpu_pod, node_object
from testbed.control_plane.stages import SLOW_DELETE, delayed, kwok_config, read_stages

NAME = "cn-zhangjiakou.192.168.3.184"


def test_a_node_offers_the_sum_of_its_cards() -> None:
    status = node_object(SimNode(NAME, [Card(units=14), Card(units=22)]))["status"]
    assert status["capacity"][contract.RESOURCE_MEM] == "36"
    assert status["allocatable"][contract.RESOURCE_COUNT] == "2"


def test_a_node_without_cards_knows_nothing_of_gpus() -> None:
    node = node_object(SimNode(NAME))
    assert not any("gpu" in name for name in node["status"]["capacity"])
    assert contract.ANN_CARDS not in node["metadata"]["annotations"]
    assert contract.LABEL_GPUSHARE not in node["metadata"]["labels"]


def test_allocatable_can_differ_from_capacity() -> None:
    node = SimNode(NAME, [Card(units=14)], allocatable={contract.RESOURCE_MEM: "0"})
    status = node_object(node)["status"]
    assert status["allocatable"][contract.RESOURCE_MEM] == "0"
    assert status["capacity"][contract.RESOURCE_MEM] == "14"


def test_cards_are_listed_in_the_annotation() -> None:
    cards = json.loads(
        node_object(SimNode(NAME, [Card()]))["metadata"]["annotations"][contract.ANN_CARDS],
    )
    assert cards == [
        {
            "index": 0,
            "uuid": cards[0]["uuid"],
            "model": "Tesla T4",
            "mib": 15079,
            "units": 14,
            "numa": 0,
            "minor": 0,
            "pci": "00000000:00:07.0",
            "healthy": True,
        }
    ]


def test_made_up_uuids_are_stable_and_differ_by_node_and_index() -> None:
    uuids = [card["uuid"] for name in ("a", "b") for card in card_list(SimNode(name, [Card(), Card()]))]
    assert len(set(uuids)) == 4
    assert uuids[0] == card_list(SimNode("a", [Card()]))[0]["uuid"]
    assert all(each.startswith("GPU-") for each in uuids)


def test_given_card_fields_are_kept() -> None:
    card = card_list(SimNode(NAME, [Card(uuid="GPU-x", minor=3, pci="p", healthy=False)]))[0]
    assert (card["uuid"], card["minor"], card["pci"], card["healthy"]) == ("GPU-x", 3, "p", False)


def test_a_node_of_the_original_plugin_has_the_label_but_no_list_of_cards() -> None:
    metadata = node_object(SimNode(NAME, [Card()], annotate_cards=False))["metadata"]
    assert metadata["labels"][contract.LABEL_GPUSHARE] == "true"
    assert contract.ANN_CARDS not in metadata["annotations"]


def test_own_labels_win() -> None:
    metadata = node_object(SimNode(NAME, [Card()], labels={contract.LABEL_GPUSHARE: "false"}))["metadata"]
    assert metadata["labels"][contract.LABEL_GPUSHARE] == "false"


def test_a_pod_asks_for_units_and_other_resources() -> None:
    pod = gpu_pod("p", 4, resources={contract.RESOURCE_CORE: 25}, nodeName="n")
    limits = pod["spec"]["containers"][0]["resources"]["limits"]
    assert limits == {contract.RESOURCE_MEM: "4", contract.RESOURCE_CORE: "25"}
    assert pod["spec"]["nodeName"] == "n"


def test_a_pod_may_ask_for_nothing() -> None:
    assert gpu_pod("p")["spec"]["containers"][0]["resources"] == {"limits": {}}


def stage(name: str) -> dict[str, object]:
    selector = {"matchExpressions": [{"key": ".metadata.deletionTimestamp", "operator": "Exists"}]}
    return {"metadata": {"name": name}, "spec": {"selector": selector, "next": {"delete": True}}}


def test_a_braked_stage_skips_pods_with_the_annotation() -> None:
    expressions = delayed(stage("pod-delete"))["spec"]["selector"]["matchExpressions"]
    assert expressions[0]["operator"] == "Exists"
    assert expressions[1] == {
        "key": f'.metadata.annotations["{SLOW_DELETE}"]',
        "operator": "NotIn",  # codespell:ignore
        "values": ["true"],
    }


def test_a_stage_without_brake_stays_as_it_is() -> None:
    assert delayed(stage("pod-complete")) == stage("pod-complete")


def test_kwok_reads_its_settings_and_all_stages() -> None:
    documents = list(
        yaml.safe_load_all(kwok_config([yaml.safe_dump(stage("a")), yaml.safe_dump(stage("b"))]))
    )
    assert [each.get("kind") for each in documents] == ["KwokConfiguration", None, None]


def test_missing_stage_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"node-initialize\.yaml.*TESTBED_KWOK_STAGES"):
        read_stages(tmp_path)
