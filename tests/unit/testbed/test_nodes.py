"""Simulated nodes and the stages of kwok; tests/integration/test_testbed.py runs both."""

from pathlib import Path

import pytest

from gpushare import contract
from gpushare.errors import ConfigError
from testbed.control_plane.nodes import Card, SimNode, card_list, node_object
from testbed.control_plane.stages import read_stages

NAME = "cn-zhangjiakou.192.168.3.184"


def test_generated_uuids_are_stable_and_differ_by_node_and_index() -> None:
    uuids = [card["uuid"] for name in ("a", "b") for card in card_list(SimNode(name, [Card(), Card()]))]
    assert len(set(uuids)) == 4
    assert uuids[0] == card_list(SimNode("a", [Card()]))[0]["uuid"]
    assert all(each.startswith("GPU-") for each in uuids)


def test_a_node_of_the_aliyun_plugin_has_the_label_but_no_list_of_gpus() -> None:
    metadata = node_object(SimNode(NAME, [Card()], annotate_cards=False))["metadata"]
    assert metadata["labels"][contract.LABEL_GPUSHARE] == "true"
    assert contract.ANN_CARDS not in metadata["annotations"]


def test_missing_stage_files_are_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"node-initialize\.yaml.*TESTBED_KWOK_STAGES"):
        read_stages(tmp_path)
