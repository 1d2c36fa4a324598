"""The node agent's books against a kubelet, a scheduler and pods that do what they like.

Pods are admitted in any order, twins are taken for each other, some come without a card, kubelet and
agent forget, cards are lost and found, refused pods linger.
"""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from gpushare.contract import CORE_PER_CARD
from gpushare.deviceplugin.core.reconcile import join
from gpushare.scheduling.book import Reservation, reserved_shares
from tests.property.node_of_pods import NodeOfPods


def no_card_is_over_its_size(node: NodeOfPods) -> None:
    mem, core = Counter[str](), Counter[str]()
    for pod in node.pods.values():
        for uuid, (units, percent) in pod.used.items():
            mem[uuid] += units
            core[uuid] += percent
    assert all(node.card(uuid).units >= units for uuid, units in mem.items()), mem
    assert all(percent <= CORE_PER_CARD for percent in core.values()), core


def a_pod_is_on_as_many_cards_as_it_asked_for_and_on_no_other(node: NodeOfPods) -> None:
    for pod in node.pods.values():
        places = {frozenset(told) for told in pod.told.values()}
        assert len(places) <= 1 or len({len(p) for p in places}) > 1


def once_joined_the_agent_knows_who_got_what(node: NodeOfPods) -> None:
    joined = join(node.agent, node.checkpoint())
    for pod in node.pods.values():
        for name, told in pod.told.items():
            assert dict(joined.grants[pod.uid, name].cards) == told


def the_extender_reads_the_truth_or_nothing(node: NodeOfPods) -> None:
    """A pod counts against its own GPUs or against all GPUs, never only against others."""
    node.agent = join(node.agent, node.checkpoint())
    view = node.extenders_view()
    for pod in node.pods.values():
        t = node.agent.gpu_pods[pod.uid]
        told = {uuid for cards in pod.told.values() for uuid in cards}
        if not told or told & node.lost or t.demand is None:
            continue
        seen = reserved_shares(Reservation(pod.uid, pod.uid, t.demand, t.claim if t.pod.seal else None), view)
        assert seen is None or {node.uuid_of(index) for index, _ in seen} == told


@given(data=st.data())
def test_whatever_comes_no_card_is_over_its_size_and_the_books_tell_the_truth(data: st.DataObject) -> None:
    node = NodeOfPods()
    often = (*[node.bind] * 4, *[node.allocate] * 5, node.delete, node.delete, node.look)
    steps = (*often, *often, node.restart_agent, node.lose_checkpoint, node.reboot)
    for step in data.draw(st.lists(st.sampled_from(range(len(steps))), min_size=20, max_size=60)):
        steps[step](data)
        no_card_is_over_its_size(node)
        a_pod_is_on_as_many_cards_as_it_asked_for_and_on_no_other(node)
        once_joined_the_agent_knows_who_got_what(node)
        the_extender_reads_the_truth_or_nothing(node)
