"""The filters of the roles and playbooks, by name; each is a function of ``plugin_utils``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible_collections.gpushare.nodes.plugins.plugin_utils.lazy import lazy

FILTERS: dict[str, Callable[..., Any]] = {
    # preflight and validate
    "check_document": lazy("checks", "document"),
    "check_table": lazy("checks", "table"),
    "cluster_verdict": lazy("verdicts", "of_cluster"),
    "failed_checks": lazy("checks", "failures"),
    "plugin_daemon_sets": lazy("validation", "plugin_daemon_sets"),
    "preflight_verdict": lazy("verdicts", "of_preflight"),
    "validate_verdict": lazy("verdicts", "of_validation"),
    "with_lost": lazy("verdicts", "with_lost"),
    # container_runtime and kubelet_tuning
    "device_list": lazy("device_lists", "of_report"),
    "containerd_changes": lazy("containerd", "changes", plain=True),
    "containerd_overridden": lazy("containerd", "overridden"),
    "merge_config": lazy("config_text", "merge", plain=True),
    "parse_config": lazy("config_text", "parse", plain=True),
    # nvidia_driver and cluster_node
    "driver_announcement": lazy("driver_plan", "announcement"),
    "driver_gpus": lazy("pci_cards", "of_host"),
    "driver_has_fabric": lazy("driver_proof", "has_fabric"),
    "driver_has_subnet_manager": lazy("driver_proof", "has_subnet_manager"),
    "driver_installed": lazy("driver_packages", "installed"),
    "driver_not_working": lazy("driver_proof", "not_working"),
    "driver_plan": lazy("driver_plan", "plan"),
    "driver_stale_modules": lazy("driver_plan", "stale_modules"),
    "node_cordon": lazy("node_object", "cordon"),
    "node_not_back": lazy("driver_proof", "not_back"),
    "node_not_this_machine": lazy("node_object", "not_this_machine"),
    "node_offer_before": lazy("driver_proof", "offer_before"),
    "node_uncordon": lazy("node_object", "uncordon"),
    # node_labels
    "node_mode_cards": lazy("node_mode", "cards_of", plain=True),
    "node_mode_plan": lazy("node_mode", "plan", plain=True),
    # packages
    "kernel_flavours": lazy("package_versions", "kernel_flavours"),
    "packages_apt_source": lazy("package_versions", "apt_source"),
    "packages_chosen": lazy("package_versions", "chosen"),
    "packages_key": lazy("signing_keys", "choose", plain=True),
    "packages_key_name": lazy("signing_keys", "identity", plain=True),
    "packages_key_problem": lazy("signing_keys", "problem", plain=True),
    "packages_left_behind": lazy("package_versions", "left_behind"),
    "packages_of_branch": lazy("package_versions", "of_branch"),
    "packages_offered": lazy("package_versions", "offered"),
    "packages_pins": lazy("package_versions", "pins"),
    "packages_to_install": lazy("package_versions", "to_install"),
    "upstream_version": lazy("package_versions", "upstream"),
    # several roles
    "other_key": lazy("systems", "other_key"),
    "system_of": lazy("systems", "of_host"),
    "system_refusal": lazy("systems", "refusal"),
    # scheduler_extender
    "scheduler_configuration": lazy("scheduler", "configuration", plain=True),
}


class FilterModule:
    """The plugin."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return FILTERS
