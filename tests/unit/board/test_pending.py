"""Pending pods on the board: the answers of ``explain``."""

import json
from typing import Any

import pytest

from gpushare.board.pending import EXPLAINED, pending
from gpushare.board.state import BoardState
from gpushare.contract import RESOURCE_MEM
from gpushare.model.modes import CGPU_PODS
from tests.support.builders.boards import Cluster, example
from tests.unit.cli.fakes import Api, documented

Found = list[dict[str, Any]]


def found(seen: BoardState, cgpu_pods: int = CGPU_PODS) -> Found:
    rows: Found = json.loads(json.dumps(pending(seen.nodes, seen.pods, seen.unhealthy, cgpu_pods)))
    return rows


@pytest.mark.asyncio
async def test_reason_and_remedies_are_those_of_explain(api: Api) -> None:
    made = example()
    api.nodes, api.pods, api.page_size = made.nodes, made.pods, 1000
    for row in found(made.state()):
        first = row["pods"][0]
        named = (first["name"], "-n", first["namespace"])
        answer = await documented(api, "explain", *named, "-o", "json")
        assert (row["state"], row["reason"]) == (answer["state"], answer["summary"])
        assert row["remedies"] == answer["remedies"]
        assert row["nodes"] == [
            {key: node[key] for key in ("name", "reason", "obstacles")} for node in answer["nodes"][:3]
        ]
        assert row["scheduler"] == answer["scheduler"]


def test_pods_that_are_bound_finished_or_request_no_units_are_not_pending() -> None:
    made = Cluster()
    made.add_node("n", "T4", [14])
    made.add_pod("a/bound", "n", 0, 4)
    made.add_pod("a/zero", "n", None, 0)
    made.add_pending("a/done", 4)
    made.pods[-1]["status"]["phase"] = "Failed"
    made.add_pending("a/plain", 4)
    del made.pods[-1]["spec"]["containers"][0]["resources"]["limits"][RESOURCE_MEM]
    assert found(made.state()) == []


def test_an_invalid_request_has_a_reason() -> None:
    made = Cluster()
    made.add_node("n", "T4", [14])
    made.add_pending("a/p", 4)
    made.pods[0]["spec"]["containers"][0]["resources"]["limits"][RESOURCE_MEM] = "x"
    [row] = found(made.state())
    assert (row["state"], row["units"]) == ("malformed", None)


def names(row: dict[str, Any]) -> list[str]:
    return [pod["name"] for pod in row["pods"]]


def test_equal_pods_are_one_group_also_of_different_namespaces() -> None:
    made = Cluster()
    made.add_node("n", "T4", [14])
    for number in range(EXPLAINED + 2):
        made.add_pending(f"team-{number % 2}/p{number}", 20, "no room", f"2026-11-25T01:{59 - number}:00Z")
    made.add_pending("team-0/larger", 30)
    made.add_pending("team-0/fits", 4)
    fits, larger, equal = found(made.state())
    assert (names(larger), names(fits)) == (["larger"], ["fits"])
    assert names(equal) == [f"p{number}" for number in reversed(range(EXPLAINED + 2))]
    assert equal["units"] == 20
    assert equal["remedies"]


def test_the_oldest_questions_are_answered_and_the_other_pods_have_the_message_of_the_scheduler() -> None:
    made = Cluster()
    made.add_node("n", "T4", [14])
    for number in range(EXPLAINED + 2):
        made.add_pending(f"a/p{number}", 20 + number, "no room", f"2026-11-25T01:{59 - number}:00Z")
    rows = found(made.state())
    assert [names(row) for row in rows] == [[f"p{number}"] for number in reversed(range(EXPLAINED + 2))]
    assert [row["reason"] is None for row in rows] == [False] * EXPLAINED + [True] * 2
    assert rows[-1]["scheduler"] == "no room"


def test_pods_that_gates_hold_back_do_not_take_the_answers_of_others() -> None:
    made = Cluster()
    made.add_node("n", "T4", [14])
    for number in range(EXPLAINED + 1):
        made.add_pending(f"a/gated{number}", 20 + number, created="2026-11-25T01:00:00Z")
        made.pods[-1]["spec"]["schedulingGates"] = [{"name": "quota"}, {"name": "team"}]
    made.add_pending("a/waits", 20, created="2026-11-25T02:00:00Z")
    rows = found(made.state())
    assert [row["state"] for row in rows] == ["gated"] * (EXPLAINED + 1) + ["waits-for-gpu"]
    assert rows[0]["reason"].endswith("gates are removed: quota, team")


def test_unhealthy_gpus_and_the_flag_of_the_extender_decide_as_in_explain() -> None:
    made = Cluster()
    made.add_node("n", "T4", [14], labels={"cgpu": "true"})
    made.add_pod("a/other", "n", 0, 1)
    made.add_pending("a/p", 1)
    [row] = found(made.state(), cgpu_pods=1)
    assert row["state"] == "waits-for-gpu"
    [row] = found(made.state(), cgpu_pods=0)
    assert row["state"] == "waits-for-other"
    [row] = found(made.state(unhealthy={"n": frozenset({0})}), cgpu_pods=0)
    assert row["state"] == "waits-for-gpu"


def test_pods_without_gpus_take_cpus_too() -> None:
    made = Cluster()
    made.add_node("n", "T4", [14])
    made.nodes[0]["status"]["allocatable"]["cpu"] = "8"
    made.add_pod("a/plain", "n", None, 0)
    made.add_pending("a/p", 4)
    for each, cpus in zip(made.pods, ("6", "4"), strict=True):
        each["spec"]["containers"][0]["resources"]["requests"] = {"cpu": cpus}
    del made.pods[0]["spec"]["containers"][0]["resources"]["limits"][RESOURCE_MEM]
    [row] = found(made.state())
    assert (row["state"], row["nodes"]) == ("waits-for-other", [])
    assert row["reason"] == "it requests 4 CPUs, and node n has 2 free"


def test_an_amount_with_a_suffix_is_no_number_of_units() -> None:
    made = Cluster()
    made.add_node("n", "T4", [14])
    made.add_pending("a/p", 4)
    made.pods[0]["spec"]["containers"][0]["resources"]["limits"][RESOURCE_MEM] = "4Gi"
    [row] = found(made.state())
    assert row["units"] is None
    assert row["reason"] == "aliyun.com/gpu-mem counts GiB by default: write 4, not 4Gi"
