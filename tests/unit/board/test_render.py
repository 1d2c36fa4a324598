"""The document of the board: the figures of ``inspect`` and ``top``, states of GPUs, and what is unknown."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given

from gpushare.board.render import board_document
from gpushare.board.state import BoardMemory, BoardState, Lost, advanced
from gpushare.board.usage import Live
from gpushare.cli.inspect import render as inspect
from gpushare.cli.lib.node_screen import text_of
from gpushare.cli.top.usage import containers, gpus
from gpushare.monitoring.page import samples
from gpushare.overview.usage import UsageFilter
from tests.support.builders.api_objects import Json
from tests.support.builders.boards import GIB, SERIES, STARTED, Cluster, example
from tests.unit.cli.test_any_objects import NODES, PODS


def shown(seen: BoardState) -> dict[str, Any]:
    """The document as the page gets it."""
    found: dict[str, Any] = json.loads(
        msgspec.json.encode(board_document(seen, advanced(BoardMemory(), seen)))
    )
    return found


def node_of(document: dict[str, Any], name: str) -> Any:
    return next(each for each in document["nodes"] if each["name"] == name)


def cluster(units: int = 14, **node: Any) -> Cluster:
    made = Cluster()
    made.add_node("n", "Tesla T4", [units], **node)
    return made


def inspected(seen: BoardState) -> list[dict[str, Any]]:
    """The items of ``kubectl inspect gpushare -o json`` for the same objects."""
    nodes = [view for view in seen.views if view.shared]
    items: list[dict[str, Any]] = json.loads(text_of(nodes, inspect.summary, "json"))["items"]
    return items


def assert_equal_figures(seen: BoardState) -> None:
    """Every figure of ``inspect`` is in the document: those of pods in the list of pods."""
    found = shown(seen)
    placed = {(pod["uid"], pod["node"]): pod for pod in found["pods"]}
    assert [node["name"] for node in found["nodes"]] == [item["name"] for item in inspected(seen)]
    for item, node in zip(inspected(seen), found["nodes"], strict=True):
        for card, own in zip(item.pop("cards"), node["cards"], strict=True):
            for pod in card.pop("pods"):
                assert placed[pod["uid"], item["name"]]["gpus"][str(card["index"])] == pod["used"]
            assert card.items() <= own.items()
        pending = item.pop("pending")
        assert node["pending"] == {"used": pending["used"]}
        for pod in pending["pods"]:
            assert placed[pod["uid"], item["name"]]["unplaced"] == pod["used"]
        del item["wholeCardPods"]
        assert item.items() <= node.items()


def test_figures_are_those_of_inspect() -> None:
    assert_equal_figures(example().state())


@given(NODES, PODS)
def test_figures_of_any_nodes_and_pods_are_those_of_inspect(a_node: Json, a_pod: Json) -> None:
    assert_equal_figures(Cluster([a_node], [a_pod], {}).state())


def test_sums_are_those_of_the_last_line_of_inspect() -> None:
    seen = example().state()
    [total] = shown(seen)["totals"]
    last = inspect.summary(seen.views).rstrip().splitlines()[-1]
    assert last.strip() == f"{total['used']}/{total['total']} ({total['percent']}%)"


def test_nodes_with_different_units_have_a_sum_for_each_unit() -> None:
    made = cluster()
    made.add_node("m", "Tesla T4", [15079])
    made.nodes[1]["metadata"]["annotations"]["gpushare.io/cards"] = '[{"index":0,"units":15079,"mib":15079}]'
    assert [(each["unit"], each["total"]) for each in shown(made.state())["totals"]] == [
        ("GiB", 14),
        ("MiB", 15079),
    ]


def test_usage_is_that_of_top() -> None:
    made = example()
    series = [each for page in made.exporters.values() for each in samples(page or "", SERIES)]
    found = shown(made.state())
    shown_cards = {
        (node["name"], str(card["index"])): (card["usedBytes"], card["memoryBytes"], card["utilization"])
        for node in found["nodes"]
        for card in node["cards"]
    }
    for (name, index, *_), numbers in gpus(series, UsageFilter()).rows:
        assert shown_cards[name, index] == numbers[1:4]
    used = {(pod["namespace"], pod["name"]): pod["usedBytes"] for pod in found["pods"]}
    for (namespace, name, *_), numbers in containers(series, UsageFilter()).rows:
        assert used[namespace, name] == numbers[0]


@pytest.mark.parametrize(
    ("node", "state"),
    [({}, "ok"), ({"unhealthy": [0]}, "unhealthy"), ({"unhealthy": [0], "cordoned": "0"}, "cordoned")],
)
def test_the_state_of_a_gpu(node: dict[str, Any], state: str) -> None:
    assert node_of(shown(cluster(**node).state()), "n")["cards"][0]["state"] == state


def test_a_gpu_that_the_agent_reports_as_unhealthy_in_its_config_map() -> None:
    found = shown(cluster().state(unhealthy={"n": frozenset({0})}))
    assert node_of(found, "n")["cards"][0]["state"] == "unhealthy"


def test_a_gpu_with_more_units_than_it_has_is_over_committed() -> None:
    made = cluster()
    made.add_pod("a/p", "n", 0, 10)
    made.add_pod("a/q", "n", 0, 5)
    card = node_of(shown(made.state()), "n")["cards"][0]
    assert (card["used"], card["total"], card["state"]) == (15, 14, "over-committed")


def test_the_health_of_a_node_without_descriptions_is_unknown() -> None:
    made = cluster()
    del made.nodes[0]["metadata"]["annotations"]["gpushare.io/cards"]
    assert node_of(shown(made.state()), "n")["cards"][0]["state"] == "unknown"


def test_usage_without_a_report_is_unknown_and_not_zero() -> None:
    made = cluster()
    made.add_pod("a/p", "n", 0, 10)
    found = shown(made.state(live=Live()))
    node = node_of(found, "n")
    assert (node["reported"], node["current"], found["used"]["usedBytes"]) == (None, False, None)
    assert {node["cards"][0][key] for key in ("usedBytes", "memoryBytes", "limitBytes", "utilization")} == {
        None
    }
    assert {found["pods"][0][key] for key in ("usedBytes", "idleBytes", "limitBytes")} == {None}
    assert found["idle"][0]["idleBytes"] is None
    assert found["idle"][0]["gibHours"] is None


def test_a_silent_exporter_leaves_the_time_of_its_last_report() -> None:
    made = cluster()
    made.add_usage("n", 0, 3, 0.5)
    first = made.live(STARTED)
    assert node_of(shown(made.state(live=first)), "n")["cards"][0]["usedBytes"] == 3 * GIB
    made.exporters["n"] = None
    found = shown(made.state(live=made.live(STARTED + 5, first)))
    node = node_of(found, "n")
    assert (node["reported"], node["current"]) == (STARTED, False)
    assert node["cards"][0]["usedBytes"] is None
    assert found["health"][0]["details"] == ["exporter e-n: no answer"]


def test_limits_of_a_gpu_are_those_of_its_containers() -> None:
    made = cluster()
    made.add_pod("a/p", "n", 0, 4, 1, limited=True)
    made.add_pod("a/q", "n", 0, 6, 1, limited=True)
    found = shown(made.state())
    assert node_of(found, "n")["cards"][0]["limitBytes"] == 10 * GIB
    assert [pod["limitBytes"] for pod in found["pods"]] == [4 * GIB, 6 * GIB]


def test_a_lost_api_server_is_stated_and_the_history_has_no_value() -> None:
    seen = cluster().state(lost=Lost(STARTED, "no answer"))
    found = shown(seen)
    assert found["lost"] == {"since": STARTED, "reason": "no answer"}
    assert found["history"]["points"][0]["allocated"] is None


def test_pods_have_the_workload_of_their_controller() -> None:
    made = cluster()
    made.add_pod("a/p-1", "n", 0, 4, 1, owner=("Job", "p"))
    made.add_pod("a/p-2", "n", 0, 4, 3, owner=("Job", "p"))
    found = shown(made.state())
    assert {pod["owner"] for pod in found["pods"]} == {"job/p"}
    [row] = found["idle"]
    assert (row["owner"], row["pods"], row["allocatedBytes"], row["idleBytes"]) == (
        "job/p",
        2,
        8 * GIB,
        4 * GIB,
    )


def test_unreadable_objects_are_problems() -> None:
    made = cluster()
    made.nodes.append({"metadata": {"name": "bad", "labels": 7}})
    made.pods.append({"metadata": {"name": "worse", "namespace": "a"}, "spec": {"containers": 7}})
    problems = shown(made.state())["health"][1:]
    assert [each["text"].partition(":")[0] for each in problems] == ["Node bad", "Pod a/worse"]


def test_a_pod_that_does_not_run_is_not_idle() -> None:
    made = cluster()
    made.add_pod("a/p", "n", 0, 4, 0, owner=("Job", "p"), waits="ErrImagePull")
    made.add_pod("a/q", "n", 0, 6, 1, owner=("Job", "q"))
    found = shown(made.state())
    assert [(pod["state"], pod["runs"]) for pod in found["pods"]] == [
        ("ErrImagePull", False),
        ("Running", True),
    ]
    rows = {each["owner"]: each for each in found["idle"]}
    assert (rows["job/p"]["idleBytes"], rows["job/p"]["gibHours"]) == (None, None)
    assert rows["job/p"]["notRunning"] == ["ErrImagePull"]
    assert rows["job/q"]["idleBytes"] == 5 * GIB


def test_without_a_limit_the_pod_is_reported_and_without_a_report_it_is_not() -> None:
    made = cluster()
    made.add_pod("a/free", "n", 0, 4, 1)
    made.add_pod("a/held", "n", 0, 4, 1, limited=True)
    made.add_pod("a/silent", "n", 0, 4)
    free, held, silent = shown(made.state())["pods"]
    assert (free["reported"], free["limitBytes"], free["peakBytes"]) == (True, None, None)
    assert (held["reported"], held["limitBytes"], held["peakBytes"]) == (True, 4 * GIB, int(1.5 * GIB))
    assert (silent["reported"], silent["limitBytes"]) == (False, None)
    assert held["utilization"] == pytest.approx(0.225, abs=0.01)
