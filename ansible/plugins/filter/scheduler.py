"""Filters of the role scheduler_extender, over the renderer of gpushare."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible_collections.gpushare.nodes.plugins.plugin_utils.lazy import lazy


class FilterModule:
    """The plugin."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"scheduler_configuration": lazy("scheduler", "configuration", plain=True)}
