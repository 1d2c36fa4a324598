"""Filters of the role scheduler_extender, over the package's own renderer and edit of static pods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible_collections.gpushare.nodes.plugins.plugin_utils.package import filtered


class FilterModule:
    """What Ansible asks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Name to function."""
        return {
            "scheduler_state": filtered("scheduler", "state_of"),
            "scheduler_install": filtered("scheduler", "install"),
            "scheduler_remove": filtered("scheduler", "remove"),
            "scheduler_configuration": filtered("scheduler", "configuration"),
        }
