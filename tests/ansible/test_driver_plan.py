"""When a driver changes, when its node must leave service, and when a run must stop."""

from typing import Any

import pytest

from ansible_collections.gpushare.nodes.plugins.plugin_utils.driver_plan import (
    announcement,
    plan,
    stale_modules,
)

OLD, NEW = "535.183.01", "580.65.06"
ASKED = {
    "target": NEW,
    "reboot": False,
    "kernel_module": "dkms",
    "kernel_module_type": "proprietary",
    "preferred_module": "",
    "secure_boot": "refuse",
}
UPGRADE = {**ASKED, "reboot": True}
UNSIGNED = {"enabled": True, "module_key": None}


def host(**changes: Any) -> dict[str, Any]:
    """The facts of a host without a driver, with these changes."""
    none = {"installed": "", "loaded": "", "on_disk": "", "nouveau": False, "reboot_due": False}
    bare = {
        "packages": {"bash": [{"version": "5.2-1"}]},
        "secure_boot": {"enabled": None, "module_key": None},
        "gpus": [],
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


def test_a_driver_of_packages_is_present_whatever_their_names() -> None:
    """A downgrade of it needs the permission of the user; a driver without packages is refused anyway."""
    of_another_archive = {"xorg-x11-drv-nvidia-cuda": [{"version": "595.91.07", "release": "1"}]}
    assert plan(host(loaded="595.91.07", packages=of_another_archive), UPGRADE)["present"] == "595.91.07"
    assert plan(host(installed=OLD, loaded=NEW, packages=packages(OLD)), UPGRADE)["present"] == OLD
    assert plan(host(loaded="595.91.07"), UPGRADE)["present"] == ""
    assert plan(host(), UPGRADE)["present"] == ""


@pytest.mark.parametrize(
    ("names", "module"),
    [
        (["nvidia-kernel-dkms", "nvidia-driver-cuda"], "proprietary"),
        (["nvidia-kernel-open-dkms"], "open"),
        (["nvidia-open-kernel-dkms"], "open"),
        (["nvidia-dkms-580", "nvidia-headless-580"], "proprietary"),
        (["nvidia-dkms-580-server-open"], "open"),
        (["linux-modules-nvidia-580-server-open-6.8.0-40-generic"], "open"),
        (["kmod-nvidia-latest-dkms"], "proprietary"),
        (["kmod-nvidia-open-dkms"], "open"),
    ],
)
def test_the_other_kernel_module_of_the_same_version_is_a_change(names: list[str], module: str) -> None:
    there = {name: [{"version": f"{NEW}-1"}] for name in names}
    found = host(installed=NEW, loaded=NEW, on_disk=NEW, packages=there)
    kept = plan(found, {**ASKED, "kernel_module_type": module})
    assert (kept["changes"], kept["reasons"], kept["refusal"]) == (False, [], "")
    other = "proprietary" if module == "open" else "open"
    refused = plan(found, {**ASKED, "kernel_module_type": other})
    assert f"nvidia_driver_kernel_module_type: {module} keeps" in refused["refusal"]
    allowed = plan(found, {**UPGRADE, "kernel_module_type": other})
    assert (allowed["changes"], allowed["out_of_service"], allowed["refusal"]) == (True, True, "")
    assert allowed["reasons"] == [f"the {module} kernel module becomes the {other} one"]


@pytest.mark.parametrize(
    "names", [["nvidia-driver-cuda"], ["linux-modules-nvidia-535-server-a", "nvidia-dkms-580-open"]]
)
@pytest.mark.parametrize("wanted", ["open", "proprietary", "auto", ""])
def test_an_unclear_kernel_module_is_kept(names: list[str], wanted: str) -> None:
    there = {name: [{"version": f"{NEW}-1"}] for name in names}
    made = plan(host(installed=NEW, loaded=NEW, packages=there), {**ASKED, "kernel_module_type": wanted})
    assert (made["changes"], made["refusal"]) == (False, "")


def test_own_packages_decide_on_the_kernel_module() -> None:
    made = plan(host(installed=NEW, loaded=NEW, packages=packages(NEW)), {**ASKED, "kernel_module_type": ""})
    assert (made["changes"], made["refusal"]) == (False, "")


def test_the_plan_names_the_modules_that_the_new_one_replaces() -> None:
    found = host(installed=OLD, packages=packages(OLD))
    assert plan(found, {**UPGRADE, "kernel_module_type": "open"})["replaces"] == ["nvidia-kernel-dkms"]
    assert plan(found, UPGRADE)["replaces"] == []
    assert plan(found, {**UPGRADE, "kernel_module_type": ""})["replaces"] == []


V100, T4, B200 = (
    {"slot": "0000:3b:00.0", "device": device, "name": None, "driver": None}
    for device in ("1db6", "1eb8", "2901")
)


@pytest.mark.parametrize(
    ("gpus", "changes", "text"),
    [
        ([V100], {"target": "590.48.01"}, "branch 590 does not serve Tesla V100 PCIe 32GB (Volta)"),
        ([T4, V100], {"target": "615.71.09"}, "branch 615 does not serve Tesla V100"),
        ([V100], {"kernel_module_type": "open"}, "the open kernel module does not serve Tesla V100"),
        ([B200], {}, "the proprietary kernel module does not serve B200 (Blackwell)"),
        ([B200], {"target": "565.57.01", "kernel_module_type": "open"}, "whose first branch is 570"),
        ([V100, B200], {"kernel_module_type": "auto"}, "no driver serves both Tesla V100"),
        ([V100], {"target": "590.48.01", "kernel_module_type": ""}, "branch 590 does not serve"),
    ],
)
@pytest.mark.parametrize("present", [{}, {"installed": OLD, "loaded": OLD, "packages": packages(OLD)}])
@pytest.mark.parametrize("reboot", [False, True])
def test_a_driver_that_does_not_serve_a_gpu_is_refused_before_any_change(
    gpus: list[dict[str, Any]],
    changes: dict[str, Any],
    text: str,
    present: dict[str, Any],
    reboot: bool,  # noqa: FBT001 - of a table
) -> None:
    refusal = plan(host(gpus=gpus, **present), {**ASKED, "reboot": reboot, **changes})["refusal"]
    assert text in refusal
    assert refusal.endswith("Nothing was changed")


AUTO = {**UPGRADE, "kernel_module_type": "auto"}


@pytest.mark.parametrize(
    ("gpus", "module"),
    [([V100], "proprietary"), ([T4], "open"), ([V100, T4], "proprietary"), ([B200], "open")],
)
def test_auto_chooses_the_module_by_the_gpus(gpus: list[dict[str, Any]], module: str) -> None:
    made = plan(host(gpus=gpus), AUTO)
    assert (made["module"], made["refusal"]) == (module, "")


@pytest.mark.parametrize(
    ("gpus", "version", "module"),
    [([T4], NEW, "proprietary"), ([B200], NEW, "open"), ([T4], "615.71.09", "open")],
)
def test_auto_takes_the_module_that_has_packages_if_it_serves(
    gpus: list[dict[str, Any]], version: str, module: str
) -> None:
    asked = {**AUTO, "target": version, "preferred_module": "proprietary"}
    assert plan(host(gpus=gpus), asked)["module"] == module


def test_auto_keeps_the_module_of_a_driver_that_keeps_its_version() -> None:
    found = host(installed=NEW, loaded=NEW, packages=packages(NEW), gpus=[T4])
    made = plan(found, {**AUTO, "reboot": False})
    assert (made["module"], made["changes"], made["refusal"]) == ("proprietary", False, "")
    upgraded = plan(host(installed=OLD, loaded=OLD, packages=packages(OLD), gpus=[T4]), AUTO)
    assert (upgraded["module"], upgraded["replaces"]) == ("open", ["nvidia-kernel-dkms"])


def test_auto_replaces_a_module_that_does_not_serve() -> None:
    found = host(installed=NEW, loaded=NEW, packages=packages(NEW), gpus=[B200])
    made = plan(found, AUTO)
    assert (made["module"], made["changes"], made["out_of_service"]) == ("open", True, True)
    assert "keeps the module" not in plan(found, {**AUTO, "reboot": False})["refusal"]


def test_dkms_packages_of_other_drivers_are_stale() -> None:
    there = {
        "nvidia-open-kernel-dkms": [{"version": f"{OLD}-1"}],
        "nvidia-dkms-open": [{"version": "590.48.01-1ubuntu1"}],
        "nvidia-dkms-535-open": [{"version": f"{OLD}-0ubuntu0.24.04.1"}],
        "nvidia-kernel-open-dkms": [{"version": f"{NEW}-1"}],
        "linux-modules-nvidia-580-server-6.8.0-40-generic": [{"version": "6.8.0-40.40"}],
        "nvidia-persistenced": [{"version": f"{OLD}-1"}],
        "zfs-dkms": [{"version": "2.1.11-1"}],
    }
    assert stale_modules(there, NEW) == [
        "nvidia-dkms-535-open",
        "nvidia-dkms-open",
        "nvidia-open-kernel-dkms",
    ]


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
