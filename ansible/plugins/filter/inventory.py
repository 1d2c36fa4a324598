"""Filter that finds problems of an inventory before any host is contacted."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from ansible_collections.gpushare.nodes.plugins.plugin_utils import inventory

_ROLES = Path(__file__).parents[2] / "roles"
_INTERNAL = ("cluster_node", "packages")
"""Roles that only other roles call; inventories do not set their variables."""


def inventory_problems(hostvars: Any, groups: Any, wanted: list[str]) -> list[str]:
    """Return the problems of the inventory; ``wanted`` are the groups that must have hosts."""
    names = {group: list(hosts) for group, hosts in groups.items()}
    variables = {host: hostvars.raw_get(host) for host in names["all"]}
    specs = dict(_specs())
    options = {name: option for each in specs.values() for name, option in each.items()}
    return inventory.problems(names, variables, options, specs, wanted)


def _specs() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each public role with the options of its entry point."""
    for file in sorted(_ROLES.glob("*/meta/argument_specs.yml")):
        role = file.parents[1].name
        if role not in _INTERNAL:
            spec = yaml.load(file.read_text(), Loader=_LOADER)  # noqa: S506 - the safe loader in C
            yield role, spec["argument_specs"]["main"].get("options", {})


_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class FilterModule:
    """The plugin."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"inventory_problems": inventory_problems}
