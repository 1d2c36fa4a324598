"""When a driver changes, when its node must leave service, and when a run must stop."""

from typing import Any

import pytest

from ansible_collections.gpushare.nodes.plugins.plugin_utils.driver_plan import announcement, plan

OLD, NEW = "535.183.01", "580.65.06"
ASKED = {"target": NEW, "reboot": False, "kernel_module": "dkms", "open": False, "secure_boot": "refuse"}
UPGRADE = {**ASKED, "reboot": True}
UNSIGNED = {"enabled": True, "module_key": None}


def host(**changes: Any) -> dict[str, Any]:
    """The facts of a host without a driver, with these changes."""
    none = {"installed": "", "loaded": "", "on_disk": "", "nouveau": False, "reboot_due": False}
    bare = {
        "packages": {"bash": [{"version": "5.2-1"}]},
        "secure_boot": {"enabled": None, "module_key": None},
    }
    return {**none, **bare, **changes}


def packages(version: str) -> dict[str, Any]:
    return {"nvidia-kernel-dkms": [{"version": f"{version}-1"}], "nvidia-smi": [{"version": f"{version}-1"}]}


@pytest.mark.parametrize("requested", [ASKED, UPGRADE])
def test_a_first_driver_needs_neither_reboot_nor_drain(requested: dict[str, Any]) -> None:
    made = plan(host(), requested)
    assert (made["changes"], made["needs_reboot"], made["out_of_service"]) == (True, False, False)
    assert made["refusal"] == ""


def test_the_requested_driver_is_kept() -> None:
    made = plan(host(installed=NEW, loaded=NEW, on_disk=NEW, packages=packages(NEW)), UPGRADE)
    assert (made["changes"], made["needs_reboot"], made["refusal"]) == (False, False, "")


def test_another_driver_is_replaced_only_with_a_reboot() -> None:
    found = host(installed=OLD, loaded=OLD, packages=packages(OLD))
    refused = plan(found, ASKED)
    assert "Playbook upgrade_driver" in refused["refusal"]
    assert f"nvidia_driver_version: {OLD} keeps" in refused["refusal"]
    assert not refused["out_of_service"]
    allowed = plan(found, UPGRADE)
    assert (allowed["refusal"], allowed["out_of_service"]) == ("", True)
    assert allowed["reasons"] == [f"driver {OLD} becomes {NEW}"]


@pytest.mark.parametrize("where", ["loaded", "on_disk"])
@pytest.mark.parametrize("requested", [ASKED, UPGRADE])
@pytest.mark.parametrize("version", [OLD, NEW])
def test_a_driver_without_a_package_is_never_changed(
    where: str, requested: dict[str, Any], version: str
) -> None:
    assert "not from a package of this host" in plan(host(**{where: version}), requested)["refusal"]


def test_packages_with_other_names_are_also_a_driver() -> None:
    found = host(loaded=OLD, packages={"kmod-nvidia-closed": [{"version": OLD, "release": "1"}]})
    assert "Playbook upgrade_driver" in plan(found, ASKED)["refusal"]
    assert plan(found, UPGRADE)["out_of_service"]


@pytest.mark.parametrize(
    ("names", "is_open"),
    [
        (["nvidia-kernel-dkms", "nvidia-driver-cuda"], False),
        (["nvidia-kernel-open-dkms"], True),
        (["nvidia-open-kernel-dkms"], True),
        (["nvidia-dkms-580", "nvidia-headless-580"], False),
        (["nvidia-dkms-580-server-open"], True),
        (["linux-modules-nvidia-580-server-open-6.8.0-40-generic"], True),
        (["kmod-nvidia-latest-dkms"], False),
        (["kmod-nvidia-open-dkms"], True),
    ],
)
def test_the_other_kernel_module_of_the_same_version_is_a_change(names: list[str], is_open: bool) -> None:  # noqa: FBT001 - of a table
    there = {name: [{"version": f"{NEW}-1"}] for name in names}
    found = host(installed=NEW, loaded=NEW, on_disk=NEW, packages=there)
    kept = plan(found, {**ASKED, "open": is_open})
    assert (kept["changes"], kept["reasons"], kept["refusal"]) == (False, [], "")
    refused = plan(found, {**ASKED, "open": not is_open})
    assert f"nvidia_driver_open_kernel_module: {str(is_open).lower()} keeps" in refused["refusal"]
    allowed = plan(found, {**UPGRADE, "open": not is_open})
    assert (allowed["changes"], allowed["out_of_service"], allowed["refusal"]) == (True, True, "")
    kinds = ("open", "proprietary") if is_open else ("proprietary", "open")
    assert allowed["reasons"] == ["the {} kernel module becomes the {} one".format(*kinds)]


@pytest.mark.parametrize(
    "names", [["nvidia-driver-cuda"], ["linux-modules-nvidia-535-server-a", "nvidia-dkms-580-open"]]
)
@pytest.mark.parametrize("wanted", [True, False, ""])
def test_an_unclear_kernel_module_is_kept(names: list[str], wanted: bool | str) -> None:  # noqa: FBT001 - of a table
    there = {name: [{"version": f"{NEW}-1"}] for name in names}
    made = plan(host(installed=NEW, loaded=NEW, packages=there), {**ASKED, "open": wanted})
    assert (made["changes"], made["refusal"]) == (False, "")


def test_own_packages_decide_on_the_kernel_module() -> None:
    made = plan(host(installed=NEW, loaded=NEW, packages=packages(NEW)), {**ASKED, "open": ""})
    assert (made["changes"], made["refusal"]) == (False, "")


def test_the_plan_names_the_modules_that_the_new_one_replaces() -> None:
    found = host(installed=OLD, packages=packages(OLD))
    assert plan(found, {**UPGRADE, "open": True})["replaces"] == ["nvidia-kernel-dkms"]
    assert plan(found, UPGRADE)["replaces"] == []
    assert plan(found, {**UPGRADE, "open": ""})["replaces"] == []


def test_an_interrupted_first_installation_continues() -> None:
    assert plan(host(on_disk=NEW, packages=packages(NEW)), ASKED)["refusal"] == ""


@pytest.mark.parametrize("trace", [{"loaded": OLD}, {"reboot_due": True}])
def test_a_pending_reboot_neither_stops_the_run_nor_drains_the_node(trace: dict[str, Any]) -> None:
    found = host(installed=NEW, packages=packages(NEW), **trace)
    waits = plan(found, ASKED)
    assert (waits["changes"], waits["needs_reboot"], waits["out_of_service"]) == (False, True, False)
    assert waits["refusal"] == ""
    assert plan(found, UPGRADE)["out_of_service"]


def test_another_version_of_the_module_on_disk_needs_no_reboot() -> None:
    assert not plan(host(installed=NEW, loaded=NEW, on_disk=OLD), UPGRADE)["needs_reboot"]


def test_nouveau_needs_a_reboot_that_must_be_allowed() -> None:
    made = plan(host(nouveau=True), ASKED)
    assert (made["needs_reboot"], made["out_of_service"], made["refusal"]) == (True, False, "")


def test_secure_boot_without_a_trusted_key_is_refused_before_any_change() -> None:
    refusal = plan(host(secure_boot=UNSIGNED), ASKED)["refusal"]
    assert "Secure Boot is enabled" in refusal
    assert "mokutil --import" in refusal
    upgrade = host(installed=OLD, packages=packages(OLD), secure_boot=UNSIGNED)
    assert "Secure Boot is enabled" in plan(upgrade, UPGRADE)["refusal"]


@pytest.mark.parametrize(
    ("boot", "requested"),
    [
        ({**UNSIGNED, "module_key": "/var/lib/dkms/mok.pub"}, ASKED),
        ({**UNSIGNED, "enabled": False}, ASKED),
        (UNSIGNED, {**ASKED, "kernel_module": "precompiled"}),
        (UNSIGNED, {**ASKED, "secure_boot": "ignore"}),
    ],
)
def test_secure_boot_accepts_signed_modules(boot: dict[str, Any], requested: dict[str, Any]) -> None:
    assert plan(host(secure_boot=boot), requested)["refusal"] == ""


def test_secure_boot_does_not_matter_for_an_installed_driver() -> None:
    found = host(installed=NEW, loaded=NEW, packages=packages(NEW), secure_boot=UNSIGNED)
    assert plan(found, UPGRADE)["refusal"] == ""


def test_the_announcement_counts_nodes_and_lists_reasons() -> None:
    leaving = plan(host(installed=OLD), UPGRADE)
    staying = plan(host(), UPGRADE)
    lines = announcement({"gpu-1": leaving, "gpu-2": staying}, {}, 50).splitlines()
    assert lines == [
        "This run takes 1 of 50 GPU nodes out of service.",
        f"gpu-1 leaves service: driver {OLD} becomes {NEW}",
    ]


def test_a_refused_run_takes_no_node_out_of_service_and_lists_pending_reboots() -> None:
    refused = plan(host(installed=OLD), ASKED)
    text = announcement(
        {"gpu-1": refused, "gpu-2": plan(host(nouveau=True), ASKED)},
        {"gpu-1": refused["refusal"], "gpu-3": "no"},
        3,
    )
    assert text.startswith("This run takes 0 of 3 GPU nodes out of service.\n")
    assert "gpu-2 needs a reboot" in text
    assert text.endswith("before any change:\n" + refused["refusal"] + "\nno")
