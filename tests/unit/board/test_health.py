"""The first lines of the page: the control plane first, then GPUs and nodes, each with a command."""

from dataclasses import replace
from typing import Any

import pytest

from gpushare.board.health import ControlPlane, Faults, Level, Statement, statements
from gpushare.board.render import board_document
from gpushare.board.state import BoardMemory, BoardState, advanced
from gpushare.board.usage import Live
from gpushare.contract import AGENT_NAME, EXTENDER_NAME
from tests.support.builders.boards import STARTED, Cluster, example, lease, system_pod

NOW = STARTED + 5
AGENT = system_pod("agent", AGENT_NAME, "n")
EXTENDER = system_pod("extender-a", EXTENDER_NAME)
HELD = lease("extender-a", NOW)


def health(seen: BoardState) -> list[Any]:
    found: list[Any] = board_document(seen, advanced(BoardMemory(), seen))["health"]
    return found


def cluster() -> Cluster:
    made = Cluster()
    made.add_node("n", "Tesla T4", [14])
    return made


def lines(plane: ControlPlane) -> list[tuple[str, str]]:
    """Level and text, of a cluster with one node and nothing else to say."""
    return [(each["level"], each["text"]) for each in health(cluster().state(control_plane=plane))]


def test_a_control_plane_that_works_is_one_line() -> None:
    text = (
        "The control plane works: 2 extenders ready, extender-a leads; 1 node agent ready; usage from 1 node."
    )
    assert health(cluster().state()) == [{"level": Level.OK, "text": text, "command": "", "details": ()}]


def test_without_an_extender_the_first_line_says_so() -> None:
    [first] = health(cluster().state(control_plane=ControlPlane((AGENT,))))
    assert first["level"] == Level.FAILED
    assert first["text"].startswith("No extender runs in kube-system")
    assert first["command"] == "kubectl gpushare doctor"


def test_an_extender_on_a_host_is_known_by_its_lease() -> None:
    [(level, text)] = lines(ControlPlane((AGENT,), HELD))
    assert (level, text.partition(";")[0]) == (Level.OK, "The control plane works: extender-a leads")


def test_extenders_that_are_not_ready() -> None:
    broken = system_pod("extender-b", EXTENDER_NAME, ready=False)
    assert lines(ControlPlane((AGENT, broken), HELD)) == [
        ("failed", "No extender is ready, so no pod gets a GPU: extender-b.")
    ]
    assert lines(ControlPlane((AGENT, EXTENDER, broken), HELD)) == [
        ("warning", "1 of 2 extenders is not ready: extender-b.")
    ]


@pytest.mark.parametrize(
    ("held", "why"),
    [
        (None, "there is no Lease gpushare-schd-extender"),
        (lease(None, NOW), "none holds the Lease"),
        (lease("x", NOW - 31), "x has not renewed the Lease for 31 s"),
    ],
)
def test_without_a_leader(held: Any, why: str) -> None:
    assert lines(ControlPlane((AGENT, EXTENDER), held)) == [
        ("failed", f"No extender leads, so no pod is bound: {why}.")
    ]


def test_a_lease_that_may_not_be_read_is_unknown_and_not_absent() -> None:
    refusal = 'User "x" cannot get resource "leases"'
    [found] = health(cluster().state(control_plane=ControlPlane((AGENT, EXTENDER), unread=refusal)))
    assert found["level"] == Level.UNKNOWN
    assert found["text"].endswith("this account may not get its Lease in kube-system.")
    assert found["details"] == (refusal,)


def test_an_extender_that_needs_no_lease_leads() -> None:
    alone = system_pod("extender-a", EXTENDER_NAME, words=("--allow-without-lease",))
    assert [level for level, _ in lines(ControlPlane((AGENT, alone)))] == [Level.OK]


def test_agents_that_are_not_ready_by_node() -> None:
    made = Cluster()
    for number in range(7):
        made.add_node(f"n{number}", "Tesla T4", [14])
    plane = made.control_plane(NOW)
    pods = tuple(each for each in plane.pods if each.component != AGENT_NAME or each.spec.node_name == "n0")
    [found] = health(made.state(control_plane=replace(plane, pods=pods)))
    assert found["text"].endswith(
        "on 6 nodes, which start no pods with a GPU: n1, n2, n3, n4, n5 and 1 more."
    )
    assert found["command"] == "kubectl gpushare doctor --node n1"


def test_a_node_that_is_not_ready_is_not_told_twice() -> None:
    made = Cluster()
    made.add_node("n", "Tesla T4", [14], ready=False)
    plane = ControlPlane((EXTENDER,), HELD)
    texts = [each["text"] for each in health(made.state(control_plane=plane))]
    assert texts[1:] == ["1 node is not ready: n."]


def test_no_exporter_answers() -> None:
    made = cluster()
    made.exporters["n"] = None
    [found] = health(made.state())
    assert found["text"] == "No exporter answers, so there is no usage of 1 node."
    assert found["details"] == ("exporter e-n: no answer",)


def test_before_the_first_round_nothing_is_said_of_what_was_not_read() -> None:
    assert health(cluster().state(live=Live(), control_plane=None)) == []


def test_gpus_after_the_control_plane() -> None:
    assert [each["text"] for each in health(example().state())] == [
        "The exporter does not answer on 1 node: gpu-t4-3.",
        "1 GPU is over-committed: gpu-t4-2 GPU 0 (16 of 14 GiB).",
        "1 GPU is unhealthy: gpu-t4-3 GPU 1.",
    ]


def test_many_problems_are_one_line_with_details() -> None:
    made = cluster()
    made.nodes += [{"metadata": {"name": f"bad{number}", "labels": 7}} for number in range(6)]
    last = health(made.state())[-1]
    assert last["text"] == "6 problems with nodes and pods."
    assert len(last["details"]) == 6


def test_a_pod_on_an_unknown_gpu() -> None:
    made = cluster()
    made.add_pod("a/p", "n", None, 4)
    assert health(made.state())[-1]["text"].endswith("count as taken: a/p.")


def test_missing_rights_are_unknown() -> None:
    found = statements(None, (), Faults(notes=("this account may not list ConfigMaps",)), NOW)
    assert found == [
        Statement(Level.UNKNOWN, "This account may not list ConfigMaps.", "kubectl gpushare doctor")
    ]
