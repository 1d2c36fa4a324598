"""Comparing requested objects with those of the API server, which adds fields."""

from collections.abc import Mapping
from typing import Any


def seen_through(live: Any, shape: Any) -> Any:
    """The fields of ``live`` that ``shape`` has; list items are matched by name if they have one."""
    if isinstance(live, Mapping) and isinstance(shape, Mapping):
        return {key: seen_through(live[key], inner) for key, inner in shape.items() if key in live}
    if isinstance(live, list) and isinstance(shape, list):
        named = {each["name"]: each for each in live if isinstance(each, Mapping) and "name" in each}
        if len(named) == len(live):
            wanted = [each for each in shape if each["name"] in named]
            return [seen_through(named[each["name"]], each) for each in wanted]
        if len(live) == len(shape):
            return [seen_through(one, other) for one, other in zip(live, shape, strict=True)]
    return live


def differences(old: Any, new: Any, path: str = "") -> list[str]:
    """Return the paths at which two values differ, like ``spec.ports[0].port``."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        keys = sorted(old.keys() | new.keys())
        pairs = [(old.get(key), new.get(key), f"{path}.{key}".lstrip(".")) for key in keys]
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = [(*pair, f"{path}[{index}]") for index, pair in enumerate(zip(old, new, strict=True))]
    else:
        return [] if old == new else [path]
    return [found for one, other, where in pairs for found in differences(one, other, where)]
