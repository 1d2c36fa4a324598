"""Only what was asked for changes in a kubelet's settings."""

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
def test_nothing_asked_changes_nothing(current: dict[str, Any]) -> None:
    assert changes(current, NOTHING) == {}


def test_what_the_kubelet_does_anyway_is_not_written() -> None:
    asked = {
        **NOTHING,
        "cpuManagerPolicy": "none",
        "memoryManagerPolicy": "None",
        "topologyManagerPolicy": "none",
    }
    assert changes({"maxPods": 77}, asked) == {}
    assert changes(TUNED, {**NOTHING, "topologyManagerPolicy": "best-effort"}) == {}


def test_one_policy_does_not_touch_the_others() -> None:
    assert changes(TUNED, {**NOTHING, "topologyManagerPolicy": "none"}) == {"topologyManagerPolicy": "none"}


def test_a_policy_that_is_turned_off_takes_its_options_with_it() -> None:
    asked = {**NOTHING, "cpuManagerPolicy": "none", "memoryManagerPolicy": "None"}
    assert changes(TUNED, asked) == {
        "cpuManagerPolicy": "none",
        "cpuManagerPolicyOptions": None,
        "memoryManagerPolicy": "None",
        "reservedMemory": None,
    }


def test_reserves_are_replaced_where_they_are_given() -> None:
    asked = {**NOTHING, "systemReserved": {"cpu": "1"}, "reservedMemory": RESERVE}
    assert changes(TUNED, asked) == {"systemReserved": {"cpu": "1"}}


def test_policies_that_the_file_does_not_name_are_the_kubelets_defaults() -> None:
    assert effective({"topologyManagerPolicy": "restricted"}) == {
        "cpuManagerPolicy": "none",
        "topologyManagerPolicy": "restricted",
        "memoryManagerPolicy": "None",
    }
