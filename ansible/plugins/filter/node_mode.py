"""Filters of the role node_labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible_collections.gpushare.nodes.plugins.plugin_utils.lazy import lazy


class FilterModule:
    """The plugin."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {
            "node_mode_plan": lazy("node_mode", "plan", plain=True),
            "node_mode_cards": lazy("node_mode", "cards_of", plain=True),
        }
