"""The judge of a soak finds over-commitment on nodes with and without an agent."""

import json
from typing import Any

import pytest

from tests.soak.judging import overcommitted, too_many
from tests.support.history import Entry


def entry(kind: str, name: str, units: int, node: str, *, card: int = 0, phase: str = "Running") -> Entry:
    pod: dict[str, Any] = {
        "metadata": {
            "uid": name,
            "name": name,
            "annotations": {"scheduler.framework.gpushare.allocation": json.dumps({"0": {str(card): units}})},
        },
        "spec": {
            "nodeName": node,
            "containers": [{"resources": {"limits": {"aliyun.com/gpu-mem": str(units)}}}],
        },
        "status": {"phase": phase},
    }
    return kind, pod


def test_a_gpu_of_a_simulated_node_with_too_many_units_is_found() -> None:
    history = [entry("ADDED", "a", 8, "sim-0"), entry("ADDED", "b", 8, "sim-0")]
    (found,) = overcommitted(history)
    assert "units=16" in found


def test_a_node_with_an_agent_is_judged_by_its_sum() -> None:
    """The annotations of two pods may name the same GPU until the agent has corrected them."""
    history = [entry("ADDED", name, 10, "real-0") for name in ("a", "b")]
    assert overcommitted(history) == []
    (found,) = overcommitted([*history, entry("ADDED", "c", 9, "real-0")])
    assert found.startswith("real-0 has 29 of 28 units bound")


def test_the_containers_of_a_gpu_with_too_many_units_are_found() -> None:
    assert too_many({("v2-0", "a"): {0: 10, 1: 4}, ("v2-0", "b"): {0: 4}, ("sim-0", "c"): {0: 14}}) == []
    (found,) = too_many({("v2-0", "a"): {0: 10}, ("v2-0", "b"): {0: 5, 1: 5}})
    assert found == "GPU 0 of v2-0 has 15 of 14 units: a, b"


@pytest.mark.parametrize(("kind", "phase"), [("DELETED", "Running"), ("MODIFIED", "Succeeded")])
def test_pods_that_are_gone_or_finished_have_no_units(kind: str, phase: str) -> None:
    whole = entry("ADDED", "a", 28, "real-1")
    gone = entry(kind, "a", 28, "real-1", phase=phase)
    assert overcommitted([whole, gone, entry("ADDED", "b", 28, "real-1")]) == []
