"""Filters of the role kubelet_tuning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible_collections.gpushare.nodes.plugins.plugin_utils import kubelet_settings


class FilterModule:
    """The plugin."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {
            "kubelet_changes": kubelet_settings.changes,
            "kubelet_effective": kubelet_settings.effective,
        }
