"""Finds problems of an inventory before any host is contacted. Pure.

Input are groups, variables and the argument specs of the roles, output are sentences. What does not belong
here: reading them (``plugins/filter/inventory.py``), and checks of hosts (the role ``preflight``).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final

Options = Mapping[str, Mapping[str, Any]]

OF_PLAYBOOKS: Final[Options] = {
    "upgrade_driver_max_fail_percentage": {"type": "raw"},
    "upgrade_driver_serial": {"type": "raw"},
    "nodes_environment": {"type": "dict"},
    "nodes_max_fail_percentage": {"type": "raw"},
    "preflight_max_fail_percentage": {"type": "raw"},
    "nodes_serial": {"type": "raw"},
}
"""Variables of playbooks rather than of roles. With ``-e NAME=VALUE``, every value is a string."""
OTHER_NAMES: Final[Mapping[str, str]] = {
    "nvidia_driver_branch": "nvidia_driver_version, a full version such as 580.65.06",
    "nvidia_driver_package_version": "nvidia_driver_version",
    "nvidia_driver_persistence_mode_on": "nvidia_driver_persistence",
    "nvidia_driver_skip_reboot": "nvidia_driver_reboot, which has the opposite meaning",
}
"""Variables of NVIDIA's driver role, which many inventories have, to those of this collection."""
_CLOSE: Final = 0.87
_SHOWN: Final = 3
_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "bool": (bool,),
    "dict": (Mapping,),
    "int": (int,),
    "list": (list, tuple),
    "str": (str, int),
}
_FIXES: Final[Mapping[str, str]] = {
    "bool": "write true or false without quotes (on the command line: -e '{{\"{name}\": true}}')",
    "dict": "write a mapping",
    "int": "write a whole number without quotes",
    "list": "write a list, also for one element",
    "str": "put it in quotes, so that YAML keeps it as a string",
}
_KNOWN_GROUPS: Final = ("all", "ungrouped", "kube_control_plane", "kube_node", "gpu_nodes")
"""Groups of Ansible, of kubespray and of this collection; their names are right."""
_MANAGED = ", or set scheduler_extender_state: unmanaged if the control plane is managed"


def problems(
    groups: Mapping[str, Sequence[str]],
    variables: Mapping[str, Mapping[str, Any]],
    options: Options,
    prefixes: Iterable[str],
    wanted: Iterable[str],
) -> list[str]:
    """Return one sentence per problem, with the name of the group or variable and the fix.

    ``groups`` is group to hosts; ``variables`` is host to its variables, untemplated; ``options`` is the
    specification of each known variable; names that start with one of ``prefixes`` belong to the roles;
    the groups ``wanted`` must have hosts.
    """
    known = {**OF_PLAYBOOKS, **options}
    found: dict[str, list[str]] = {}
    for host, values in variables.items():
        for fault in _of_host(values, known, tuple(prefixes)):
            found.setdefault(fault, []).append(host)
    return [
        *_of_groups(groups, wanted),
        *(f"{fault} (on {_some(hosts)})" for fault, hosts in found.items()),
    ]


def _of_groups(groups: Mapping[str, Sequence[str]], wanted: Iterable[str]) -> Iterator[str]:
    for name in wanted:
        if groups.get(name):
            continue
        others = [group for group in groups if group not in _KNOWN_GROUPS]
        close = get_close_matches(name, others, n=1)
        hint = f", or rename group {close[0]} if it is misspelt" if close else ""
        hint += _MANAGED if name == "kube_control_plane" else ""
        yield f"group {name} has no hosts: name at least one in the inventory{hint}"


def _of_host(values: Mapping[str, Any], known: Options, prefixes: tuple[str, ...]) -> Iterator[str]:
    # Names with a leading underscore are internal to the roles.
    for name in sorted(each for each in values if not each.startswith("_")):
        if name in known:
            yield from _of_value(name, values[name], known[name])
        elif other := OTHER_NAMES.get(name):
            yield f"variable {name} does not belong to this collection: use {other}"
        elif fault := _of_name(name, known, prefixes):
            yield fault


def _of_name(name: str, known: Options, prefixes: tuple[str, ...]) -> str:
    close = get_close_matches(name, known, n=1, cutoff=_CLOSE)
    if close:
        return f"variable {name} is unknown: did you mean {close[0]}?"
    role = next((prefix for prefix in prefixes if name.startswith(f"{prefix}_")), "")
    return (
        f"variable {name} is unknown: ansible/roles/{role}/README.md lists those of the role" if role else ""
    )


def _of_value(name: str, value: Any, option: Mapping[str, Any]) -> Iterator[str]:
    kind = option.get("type", "str")
    if kind not in _TYPES or value is None or _is_later(value):
        return
    if not isinstance(value, _TYPES[kind]) or (isinstance(value, bool) and kind != "bool"):
        found = "a string" if isinstance(value, str) else f"a {type(value).__name__}"
        fix = _FIXES[kind].format(name=name)
        yield f"variable {name} is {found} ({value!s:.60}), but its type is {kind}: {fix}"
    elif (choices := option.get("choices")) and value not in choices:
        yield f"variable {name} is {value!s:.60}: use one of {', '.join(map(str, choices))}"


def _is_later(value: Any) -> bool:
    """Whether a value is known only after templating or decryption."""
    if isinstance(value, str):
        return "{{" in value or "{%" in value
    return not isinstance(value, (bool, int, float, list, tuple, Mapping))


def _some(hosts: Sequence[str]) -> str:
    more = len(hosts) - _SHOWN
    return ", ".join(hosts[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
