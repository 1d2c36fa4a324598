"""Filters of the roles preflight and validate: from results of modules to checks, tables and documents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible_collections.gpushare.nodes.plugins.plugin_utils.lazy import lazy


class FilterModule:
    """The plugin."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {
            "check_document": lazy("checks", "document"),
            "check_table": lazy("checks", "table"),
            "cluster_verdict": lazy("verdicts", "of_cluster"),
            "failed_checks": lazy("checks", "failures"),
            "plugin_daemon_sets": lazy("validation", "plugin_daemon_sets"),
            "preflight_verdict": lazy("verdicts", "of_preflight"),
            "validate_verdict": lazy("verdicts", "of_validation"),
            "with_lost": lazy("verdicts", "with_lost"),
        }
