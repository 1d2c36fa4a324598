"""The tables of the CLI and the ledger of the extender place each pod on the same GPUs."""

import json

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from gpushare.adapters.kube.wire import WireNode, WirePod, core_node, pod_of
from gpushare.contract import ANN_ALLOCATION, ANN_ASSIGNED_NODE, ANN_IDX, ANN_POD
from gpushare.scheduling.advice.inspection import inspect_node
from gpushare.scheduling.snapshot import books_of
from tests.support.builders.api_objects import Json, node, pod, share, views

SMALL = st.integers(0, 5)
CARDS = st.dictionaries(st.integers(0, 3).map(str), SMALL, max_size=3)
ALLOCATION = st.dictionaries(st.sampled_from(["0", "1"]), CARDS, max_size=2).map(json.dumps) | st.just("junk")
TEXTS = {ANN_IDX: SMALL.map(str), ANN_POD: SMALL.map(str), ANN_ALLOCATION: ALLOCATION}
ANNOTATIONS = st.fixed_dictionaries({}, optional=TEXTS)


def in_ledger(a_node: Json, a_pod: Json) -> tuple[dict[int, int], int]:
    """The units of the pod on each GPU, and those with an unknown GPU, as the extender answers inspect."""
    found = pod_of(msgspec.convert(a_pod, WirePod))
    assert found is not None
    entry = inspect_node(books_of([core_node(msgspec.convert(a_node, WireNode))], [found], {})["n"])
    placed = {device["id"]: each["usedGPU"] for device in entry["devs"] for each in device["pods"]}
    return placed, sum(each["usedGPU"] for each in entry.get("unplaced", []))


@given(SMALL, st.sampled_from([None, 1, 2]), ANNOTATIONS, st.none() | CARDS)
def test_a_pod_is_on_the_gpus_on_which_the_ledger_counts_it(
    units: int, count: int | None, annotations: dict[str, str], assigned: dict[str, int] | None
) -> None:
    a_pod = pod("p", "n", units, cards=count)
    a_pod["metadata"]["annotations"] = annotations
    published = {} if assigned is None else {"uid-p": {"main": assigned}}
    a_node = node("n", share(30, 3), annotations={ANN_ASSIGNED_NODE: json.dumps(published)})
    pods = [(dict(each.cards), each.pending) for view in views([a_node], [a_pod]) for each in view.pods]
    assert pods == ([in_ledger(a_node, a_pod)] if units else [])
