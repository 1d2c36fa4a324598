"""Filters over Node objects and over the plans of a run for all nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible_collections.gpushare.nodes.plugins.plugin_utils import driver_plan, node_object
from ansible_collections.gpushare.nodes.plugins.plugin_utils.lazy import lazy


class FilterModule:
    """The plugin."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {
            "driver_announcement": driver_plan.announcement,
            "driver_gpus": lazy("pci_cards", "of_host"),
            "driver_has_fabric": lazy("driver_proof", "has_fabric"),
            "driver_has_subnet_manager": lazy("driver_proof", "has_subnet_manager"),
            "driver_not_working": lazy("driver_proof", "not_working"),
            "driver_plan": driver_plan.plan,
            "node_cordon": node_object.cordon,
            "node_is_cordoned_by": node_object.is_cordoned_by,
            "node_not_back": lazy("driver_proof", "not_back"),
            "node_not_this_machine": node_object.not_this_machine,
            "node_offer_before": lazy("driver_proof", "offer_before"),
            "node_uncordon": node_object.uncordon,
        }
