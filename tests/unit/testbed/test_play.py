"""Playing stories: the cards of their nodes as a driver describes them."""

import pytest

from gpushare.deviceplugin.core.shared_gpus import units_of
from gpushare.model.options import MemoryUnit
from testbed.control_plane.nodes import SimNode
from testbed.stories import STORIES
from testbed.stories.play import stub_cards

NODES = [node for make in STORIES if not (story := make()).simulated for node in story.nodes]


@pytest.mark.parametrize("node", NODES, ids=lambda node: node.name)
def test_a_real_nodes_cards_are_as_large_as_those_of_the_simulated_one(node: SimNode) -> None:
    described = [(card.name, card.total_mib - card.reserved_mib) for card in stub_cards(node)]
    assert described == [(card.model, card.mib) for card in node.cards]
    assert [units_of(mib, MemoryUnit.GIB) for _, mib in described] == [card.units for card in node.cards]
