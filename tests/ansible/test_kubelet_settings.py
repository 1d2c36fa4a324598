"""Only requested settings of a kubelet change."""

from typing import Any

import pytest

from ansible_collections.gpushare.nodes.plugins.plugin_utils.kubelet_settings import changes, effective

NOTHING: dict[str, Any] = {
    "cpuManagerPolicy": "",
    "cpuManagerPolicyOptions": {},
    "topologyManagerPolicy": "",
    "memoryManagerPolicy": "",
    "reservedMemory": [],
    "reservedSystemCPUs": "",
    "systemReserved": {},
}
RESERVE = [{"numaNode": 0, "limits": {"memory": "1Gi"}}]
TUNED = {
    "cpuManagerPolicy": "static",
    "cpuManagerPolicyOptions": {"full-pcpus-only": "true"},
    "topologyManagerPolicy": "best-effort",
    "memoryManagerPolicy": "Static",
    "reservedMemory": RESERVE,
}


@pytest.mark.parametrize("current", [{}, TUNED])
def test_empty_requests_change_nothing(current: dict[str, Any]) -> None:
    assert changes(current, NOTHING) == {}


def test_defaults_of_the_kubelet_are_not_written() -> None:
    requested = {
        **NOTHING,
        "cpuManagerPolicy": "none",
        "memoryManagerPolicy": "None",
        "topologyManagerPolicy": "none",
    }
    assert changes({"maxPods": 77}, requested) == {}
    assert changes(TUNED, {**NOTHING, "topologyManagerPolicy": "best-effort"}) == {}


def test_one_policy_does_not_change_the_others() -> None:
    assert changes(TUNED, {**NOTHING, "topologyManagerPolicy": "none"}) == {"topologyManagerPolicy": "none"}


def test_a_policy_that_is_turned_off_loses_its_options() -> None:
    requested = {**NOTHING, "cpuManagerPolicy": "none", "memoryManagerPolicy": "None"}
    assert changes(TUNED, requested) == {
        "cpuManagerPolicy": "none",
        "cpuManagerPolicyOptions": None,
        "memoryManagerPolicy": "None",
        "reservedMemory": None,
    }


def test_requested_reserves_are_replaced() -> None:
    requested = {**NOTHING, "systemReserved": {"cpu": "1"}, "reservedMemory": RESERVE}
    assert changes(TUNED, requested) == {"systemReserved": {"cpu": "1"}}


def test_missing_policies_are_the_defaults_of_the_kubelet() -> None:
    assert effective({"topologyManagerPolicy": "restricted"}) == {
        "cpuManagerPolicy": "none",
        "topologyManagerPolicy": "restricted",
        "memoryManagerPolicy": "None",
    }
