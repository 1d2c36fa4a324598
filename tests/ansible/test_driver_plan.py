"""When a driver changes, when its node must leave service for that, and when a run must not go on."""

from typing import Any

import pytest

from ansible_collections.gpushare.nodes.plugins.plugin_utils.driver_plan import announcement, plan

OLD, NEW = "535.183.01", "580.65.06"
ASKED = {"target": NEW, "reboot": False}
UPGRADE = {"target": NEW, "reboot": True}


def host(**changes: Any) -> dict[str, Any]:
    """What is found on a host without any driver, but for the changes."""
    none = {"installed": "", "loaded": "", "on_disk": "", "nouveau": False, "reboot_due": False}
    return {**none, "packages": {"bash": [{"version": "5.2-1"}]}, **changes}


def packages(version: str) -> dict[str, Any]:
    return {"nvidia-kernel-dkms": [{"version": f"{version}-1"}], "nvidia-smi": [{"version": f"{version}-1"}]}


@pytest.mark.parametrize("asked", [ASKED, UPGRADE])
def test_a_first_driver_needs_neither_reboot_nor_drain(asked: dict[str, Any]) -> None:
    made = plan(host(), asked)
    assert (made["changes"], made["needs_reboot"], made["out_of_service"]) == (True, False, False)
    assert made["refusal"] == ""


def test_the_driver_that_is_asked_for_is_left_alone() -> None:
    made = plan(host(installed=NEW, loaded=NEW, on_disk=NEW, packages=packages(NEW)), UPGRADE)
    assert (made["changes"], made["needs_reboot"], made["refusal"]) == (False, False, "")


def test_another_driver_is_replaced_with_a_reboot_only() -> None:
    found = host(installed=OLD, loaded=OLD, packages=packages(OLD))
    refused = plan(found, ASKED)
    assert "Playbook upgrade_driver" in refused["refusal"]
    assert f"nvidia_driver_version: {OLD} keeps" in refused["refusal"]
    assert not refused["out_of_service"]
    allowed = plan(found, UPGRADE)
    assert (allowed["refusal"], allowed["out_of_service"]) == ("", True)
    assert allowed["reasons"] == [f"driver {OLD} becomes {NEW}"]


@pytest.mark.parametrize("where", ["loaded", "on_disk"])
@pytest.mark.parametrize("asked", [ASKED, UPGRADE])
@pytest.mark.parametrize("version", [OLD, NEW])
def test_a_driver_that_no_package_has_is_never_touched(
    where: str, asked: dict[str, Any], version: str
) -> None:
    assert "no package of this host has it" in plan(host(**{where: version}), asked)["refusal"]


def test_packages_of_other_names_are_a_driver_too() -> None:
    found = host(loaded=OLD, packages={"kmod-nvidia-closed": [{"version": OLD, "release": "1"}]})
    assert "Playbook upgrade_driver" in plan(found, ASKED)["refusal"]
    assert plan(found, UPGRADE)["out_of_service"]


def test_a_first_installation_that_was_killed_half_way_goes_on() -> None:
    assert plan(host(on_disk=NEW, packages=packages(NEW)), ASKED)["refusal"] == ""


@pytest.mark.parametrize("trace", [{"loaded": OLD}, {"reboot_due": True}])
def test_a_reboot_that_is_due_is_no_reason_to_stop_and_none_to_drain(trace: dict[str, Any]) -> None:
    found = host(installed=NEW, packages=packages(NEW), **trace)
    waits = plan(found, ASKED)
    assert (waits["changes"], waits["needs_reboot"], waits["out_of_service"]) == (False, True, False)
    assert waits["refusal"] == ""
    assert plan(found, UPGRADE)["out_of_service"]


def test_a_module_of_another_version_on_the_disk_asks_for_no_reboot_for_ever() -> None:
    assert not plan(host(installed=NEW, loaded=NEW, on_disk=OLD), UPGRADE)["needs_reboot"]


def test_nouveau_needs_a_reboot_that_is_not_taken_unasked() -> None:
    made = plan(host(nouveau=True), ASKED)
    assert (made["needs_reboot"], made["out_of_service"], made["refusal"]) == (True, False, "")


def test_the_announcement_counts_the_fleet_and_names_nodes_and_reasons() -> None:
    leaving = plan(host(installed=OLD), UPGRADE)
    staying = plan(host(), UPGRADE)
    told = announcement({"gpu-1": leaving, "gpu-2": staying}, {}, 50).splitlines()
    assert told == [
        "This run takes 1 of 50 GPU nodes out of service.",
        f"gpu-1 leaves service: driver {OLD} becomes {NEW}",
    ]


def test_a_refusal_takes_no_node_away_and_a_reboot_that_waits_is_told() -> None:
    refused = plan(host(installed=OLD), ASKED)
    told = announcement(
        {"gpu-1": refused, "gpu-2": plan(host(nouveau=True), ASKED)},
        {"gpu-1": refused["refusal"], "gpu-3": "no"},
        3,
    )
    assert told.startswith("This run takes 0 of 3 GPU nodes out of service.\n")
    assert "gpu-2 waits for a reboot" in told
    assert told.endswith("before anything is changed:\n" + refused["refusal"] + "\nno")
