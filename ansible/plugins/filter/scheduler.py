"""Filters of the role scheduler_extender, over the renderer and the static pod edit of gpushare."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible_collections.gpushare.nodes.plugins.plugin_utils.lazy import lazy


class FilterModule:
    """The plugin."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {
            "scheduler_state": lazy("scheduler", "state_of", plain=True),
            "scheduler_install": lazy("scheduler", "install", plain=True),
            "scheduler_remove": lazy("scheduler", "remove", plain=True),
            "scheduler_configuration": lazy("scheduler", "configuration", plain=True),
        }
