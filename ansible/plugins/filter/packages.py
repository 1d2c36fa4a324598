"""Filters over package versions; see ``plugin_utils.package_versions``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible_collections.gpushare.nodes.plugins.plugin_utils import package_versions


class FilterModule:
    """The plugin."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {
            "kernel_flavours": package_versions.kernel_flavours,
            "packages_apt_source": package_versions.apt_source,
            "packages_chosen": package_versions.chosen,
            "packages_left_behind": package_versions.left_behind,
            "packages_of_branch": package_versions.of_branch,
            "packages_offered": package_versions.offered,
            "packages_pins": package_versions.pins,
            "packages_to_install": package_versions.to_install,
            "upstream_version": package_versions.upstream,
        }
