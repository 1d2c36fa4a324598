"""No content of an object makes the commands fail."""

import json

from hypothesis import given
from hypothesis import strategies as st

from gpushare.cli.inspect import render as inspect
from gpushare.cli.lib.node_screen import NodeLayout, text_of
from gpushare.cli.top import arena, arena_share
from gpushare.contract import ANN_ASSIGNED_NODE, ANN_CARDS
from gpushare.overview.gpu_pods import objects_of, read_node, read_pod
from gpushare.overview.node_view import views_of
from tests.support.builders.api_objects import Json, node, pod, share, views, whole

LAYOUTS: list[NodeLayout] = [
    inspect.summary,
    inspect.details,
    arena.summary,
    arena.details,
    arena_share.summary,
    arena_share.details,
]
HUGE = st.sampled_from([-1, 0, 1, 15, 129, 2**63, 10**400])
AMOUNT = HUGE.map(str) | st.integers() | st.sampled_from(["", "x", "1Gi", "9E"]) | st.none() | st.booleans()
CARD = st.fixed_dictionaries(
    {"index": HUGE, "units": HUGE}, optional={"mib": HUGE, "model": st.text(max_size=3)}
)
CARDS = st.lists(CARD, max_size=3).map(json.dumps) | st.text(max_size=5)
PER_CARD = st.dictionaries(HUGE.map(str), HUGE, max_size=2)
ALLOCATION = st.dictionaries(st.sampled_from(["0", "1"]), PER_CARD, max_size=2)
NODES = st.builds(
    lambda mem, count, gpus, cards, assigned: node(
        "n",
        share(mem, count) | {"nvidia.com/gpu": gpus},
        annotations={ANN_CARDS: cards, ANN_ASSIGNED_NODE: json.dumps({"uid-p": assigned})} if cards else {},
    ),
    *(AMOUNT, AMOUNT, AMOUNT, st.none() | CARDS, ALLOCATION),
)
PODS = st.builds(
    lambda mem, index, allocation: pod("p", "n", mem, index=index, allocation=allocation),
    *(AMOUNT, st.none() | HUGE.map(str), st.none() | ALLOCATION.map(json.dumps) | st.text(max_size=5)),
)


@given(NODES, PODS)
def test_every_view_of_any_nodes_and_pods_is_a_text(a_node: Json, a_pod: Json) -> None:
    found = objects_of([read_node(json.dumps(a_node).encode())], [read_pod(json.dumps(a_pod).encode())])
    nodes = views_of(found.nodes, found.pods)
    for layout in LAYOUTS:
        for output in (None, "wide", "json", "yaml", "name"):
            text = text_of(nodes, layout, output)
            assert "\t" not in text
            assert len(text) < 50_000


def test_whole_gpus_that_no_pod_can_get_are_not_in_use_twice() -> None:
    arena.chosen(views([node("evicted", share(15), capacity=share(15) | whole(1))]), sharing_only=False)
