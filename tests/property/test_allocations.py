"""The agent's allocations under arbitrary actions of kubelet, scheduler and pods.

Pods are admitted in any order, twins are mistaken for each other, some have no annotations, kubelet and
agent lose their state, the checkpoint cannot be read for a while, GPUs disappear and return, rejected pods
stay in the API, and entries of removed pods in the checkpoint.
"""

from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from gpushare.contract import CORE_PER_CARD
from gpushare.deviceplugin.core.reconcile import join
from gpushare.scheduling.book import Reservation, reserved_shares
from tests.property.node_model import NodeModel


def used(node: NodeModel) -> tuple[Counter[str], Counter[str]]:
    """Units and percent that the containers of each GPU really have."""
    mem, core = Counter[str](), Counter[str]()
    for pod in node.pods.values():
        for uuid, (units, percent) in pod.used.items():
            mem[uuid] += units
            core[uuid] += percent
    return mem, core


def no_gpu_exceeds_its_size(node: NodeModel) -> None:
    mem, core = used(node)
    assert all(node.card(uuid).units >= units for uuid, units in mem.items()), mem
    assert all(percent <= CORE_PER_CARD for percent in core.values()), core


def a_pod_is_on_as_many_gpus_as_it_requested(node: NodeModel) -> None:
    for pod in node.pods.values():
        places = {frozenset(allocated) for allocated in pod.allocated.values()}
        assert len(places) <= 1 or len({len(p) for p in places}) > 1


def once_joined_the_agent_knows_every_allocation(node: NodeModel) -> None:
    joined = join(node.agent, node.checkpoint(), node.stale)
    for pod in node.pods.values():
        for name, allocated in pod.allocated.items():
            assert dict(joined.by_container[pod.uid, name].cards) == allocated


def the_extender_never_reads_wrong_gpus(node: NodeModel) -> None:
    """The extender sees a pod on its GPUs or on every GPU, never on other GPUs only.

    While the agent cannot read the checkpoint, it may show a pod on the GPU of its twin, and the reverse.
    """
    node.join()
    if not node.readable:
        return
    view = node.extenders_view()
    for pod in node.pods.values():
        t = node.agent.gpu_pods[pod.uid]
        allocated = {uuid for cards in pod.allocated.values() for uuid in cards}
        if not allocated or allocated & node.lost or t.demand is None:
            continue
        seen = reserved_shares(Reservation(pod.uid, pod.uid, t.demand, t.claim if t.pod.seal else None), view)
        assert seen is None or {node.uuid_of(index) for index, _ in seen} == allocated


def after_any_actions(data: st.DataObject) -> Iterator[NodeModel]:
    """The node after each of its actions."""
    node = NodeModel()
    often = (*[node.bind] * 4, *[node.allocate] * 5, node.delete, node.delete, node.look)
    rare = (node.restart_agent, node.lose_checkpoint, node.reboot, node.hide_or_show_checkpoint)
    steps = (*often, *often, *rare)
    for step in data.draw(st.lists(st.sampled_from(range(len(steps))), min_size=20, max_size=60)):
        steps[step](data)
        yield node


@given(data=st.data())
def test_no_gpu_exceeds_its_size_and_the_state_is_correct_after_any_actions(data: st.DataObject) -> None:
    for node in after_any_actions(data):
        no_gpu_exceeds_its_size(node)
        a_pod_is_on_as_many_gpus_as_it_requested(node)
        once_joined_the_agent_knows_every_allocation(node)
        the_extender_never_reads_wrong_gpus(node)


def test_these_actions_fill_the_gpus() -> None:
    """The facts above would hold on a node that allocates nothing."""

    # It ends at the first full GPU, in any profile.
    @settings(phases=(Phase.generate,), max_examples=1000)
    @given(data=st.data())
    def no_gpu_is_full(data: st.DataObject) -> None:
        for node in after_any_actions(data):
            mem, _ = used(node)
            assert all(units < node.card(uuid).units for uuid, units in mem.items())

    with pytest.raises(AssertionError):
        no_gpu_is_full()
