"""The checks of the cluster, from events of the probe."""

from typing import Any

import pytest

from ansible_collections.gpushare.nodes.plugins.plugin_utils.checks import Check, Level
from ansible_collections.gpushare.nodes.plugins.plugin_utils.scheduler_probe import checks

NODES: dict[str, Any] = {"resources": [{}, {}]}


def scheduler(*events: tuple[str, str], refused: str = "") -> Check:
    listed = [{"reason": reason, "message": message} for reason, message in events]
    _, found = checks(NODES, {"refused": refused, "events": listed})
    return found


def test_an_api_that_cannot_be_read_is_the_only_failure() -> None:
    (found,) = checks({"msg": "Unauthorized"}, {})
    assert (found.level, "(Unauthorized)" in found.problem) == (Level.FAIL, True)


def test_without_a_probe_only_the_api_is_checked() -> None:
    assert checks(NODES, {}) == [Check("api", Level.OK, "2 nodes")]


@pytest.mark.parametrize(
    ("reason", "message", "level"),
    [
        ("FailedScheduling", "0/2: 1 probe: limit 1 cannot be spread evenly over 1000 GPUs", Level.OK),
        ("FailedScheduling", "0/2 nodes are available: 2 Insufficient aliyun.com/gpu-mem.", Level.WARN),
        ("FailedScheduling", 'Post "http://127.0.0.1:32766/filter": connection refused', Level.FAIL),
        ("Scheduled", "Successfully assigned default/gpushare-validate to n", Level.FAIL),
        ("GPUShareMalformed", "…", Level.FAIL),
    ],
)
def test_each_answer_of_the_scheduler(reason: str, message: str, level: Level) -> None:
    assert scheduler((reason, message)).level is level


def test_a_placed_probe_outweighs_earlier_events() -> None:
    found = scheduler(("FailedScheduling", "evenly over 1000 cards"), ("Scheduled", "assigned to n"))
    assert found.found == "without extender"


def test_no_event_and_a_refused_probe_fail() -> None:
    assert scheduler().found == "no event"
    assert "(forbidden)" in scheduler(refused="forbidden").problem
