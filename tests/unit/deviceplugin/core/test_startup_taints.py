"""When startup taints go, and that no other taint goes with them."""

from collections.abc import Mapping

import pytest

from gpushare.contract import ANN_CARDS, ANN_CLOSED, RESOURCE_MEM, STARTUP_TAINTS
from gpushare.deviceplugin.core.startup_taints import removed_taints, without_startup_taints
from gpushare.model.local_node import LocalNode, Taint

OURS, BUILT_IN = (Taint(key, "NoSchedule") for key in STARTUP_TAINTS)
OTHER = Taint("gpu", "NoSchedule")
SERVING = {ANN_CARDS: "[]"}


def node(
    *taints: Taint, annotations: Mapping[str, str] | None = None, allocatable: Mapping[str, int] | None = None
) -> LocalNode:
    """A node with units, as its kubelet and its agent report them."""
    return LocalNode(
        "n",
        "uid-1",
        annotations=SERVING if annotations is None else annotations,
        allocatable={RESOURCE_MEM: 28} if allocatable is None else allocatable,
        taints=taints,
    )


def test_a_startup_taint_goes_if_it_is_still_in_its_place() -> None:
    assert removed_taints(node(OTHER, OURS)) == [
        {"op": "test", "path": "/metadata/uid", "value": "uid-1"},
        {"op": "test", "path": "/spec/taints/1/key", "value": "gpushare.io/starting"},
        {"op": "test", "path": "/spec/taints/1/effect", "value": "NoSchedule"},
        {"op": "remove", "path": "/spec/taints/1"},
    ]


def test_several_go_from_the_end_so_that_places_stay_right() -> None:
    evicting = Taint(OURS.key, "NoExecute")
    removed = removed_taints(node(OURS, OTHER, evicting, BUILT_IN)) or []
    paths = [each["path"] for each in removed if each["op"] == "remove"]
    assert paths == ["/spec/taints/3", "/spec/taints/2", "/spec/taints/0"]
    assert without_startup_taints(node(OURS, OTHER, evicting, BUILT_IN)).taints == (OTHER,)


@pytest.mark.parametrize(
    "starting",
    [
        None,
        node(OTHER),
        node(),
        node(OURS, allocatable={}),
        node(OURS, allocatable={RESOURCE_MEM: 0}),
        node(OURS, annotations={}),
        node(OURS, annotations={**SERVING, ANN_CLOSED: "no library"}),
    ],
)
def test_no_taint_goes_before_pods_can_be_placed(starting: LocalNode | None) -> None:
    assert removed_taints(starting) is None
