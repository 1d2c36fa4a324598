"""How long the engine waits for DaemonSets of a cluster's size."""

from typing import Any

import pytest

from components.resources import rollout_s

MINUTE_S = 60


def daemon_set(max_unavailable: int | str) -> dict[str, Any]:
    update = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": max_unavailable}}
    return {"kind": "DaemonSet", "spec": {"updateStrategy": update}}


@pytest.mark.parametrize(
    ("max_unavailable", "nodes", "steps"),
    [("10%", 50, 10), ("10%", 5000, 10), ("10%", 3, 3), (1, 50, 50), (20, 50, 3), ("100%", 50, 1)],
)
def test_each_step_of_a_rollout_adds_three_minutes_to_ten(
    max_unavailable: int | str, nodes: int, steps: int
) -> None:
    assert rollout_s(daemon_set(max_unavailable), nodes) == (10 + 3 * steps) * MINUTE_S


def test_the_provider_decides_for_other_objects() -> None:
    assert rollout_s({"kind": "DaemonSet", "spec": {"updateStrategy": {"type": "OnDelete"}}}, 50) is None
    assert rollout_s({"kind": "ServiceAccount"}, 50) is None
