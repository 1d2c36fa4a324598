"""The objects of the chart, from the builders, for each combination of choices. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, fields, is_dataclass, replace
from itertools import product
from typing import Any, Final

from components.config import Stack
from components.manifests import everything
from components.manifests.parts import Object
from components.stack import load
from gpushare.contract import CERTIFICATES_NAME, MPS_NAME
from gpushare.errors import ConfigError, GpuShareError
from release.chart.merge import Combination, Test, Tree, merge, when
from release.chart.values import GROUPS, IMAGES, INTEGERS, SLOTS, VERSION, Choice, image_marker, marker

KEPT_KINDS: Final = ("PersistentVolumeClaim", "Secret")
"""Kinds that stay after the chart is uninstalled, because they have data."""
KEPT_NAMES: Final = (MPS_NAME,)
KEEP: Final = {"helm.sh/resource-policy": "keep"}
_PARTS: Final = ("isolation", "mps", "monitoring")
_POOL: Final = "devicePlugin"
Identity = tuple[str, str]
"""Kind and name of an object."""


@dataclass(frozen=True)
class Found:
    """An object of the chart: its tree, the test under which it exists, and the choices that both number."""

    kind: str
    name: str
    tree: Tree
    test: Test
    group: str


def chart_objects() -> list[Found]:
    """Return all objects of the chart, in the order in which they can be applied."""
    groups = {name: _variants(choices) for name, choices in GROUPS.items()}
    order = _order(groups)
    return [_found(identity, groups) for identity in order]


def failures() -> Iterator[tuple[str, Test, str]]:
    """Yield the group, the test and the message of each combination that the builders reject."""
    for name, choices in GROUPS.items():
        messages: dict[str, set[Combination]] = {}
        for combination in _combinations(choices):
            try:
                settings_for(choices, combination)
            except ConfigError as error:
                messages.setdefault(str(error), set()).add(combination)
        universe = frozenset(_combinations(choices))
        for message, rejected in messages.items():
            yield name, when(frozenset(rejected), universe), message


def settings_for(choices: Sequence[Choice], combination: Combination) -> Stack:
    """Return the settings of a combination, with markers. Raises ConfigError for one that is rejected."""
    raw: dict[str, Any] = {
        "kubernetesVersion": list(VERSION.options)[-1],
        "images": {name: image_marker(name) for name in IMAGES},
        "extender": {},
        "devicePlugins": [{}],
        **{part: {} for part in _PARTS},
    }
    for choice, option in zip(choices, combination, strict=True):
        for path, value in choice.options[option].items():
            set_in(raw, path, value)
    settings = load(raw)
    for path in SLOTS:
        settings = _marked(settings, path.split("."), marker(path), is_number=path in INTEGERS)
    return settings


def set_in(raw: dict[str, Any], path: str, value: Any) -> None:
    """Set the value at a path in the configuration of a stack; a part that is off stays off.

    It is copied, because a later path can be inside of it.
    """
    head, _, rest = path.partition(".")
    if not rest:
        raw[head] = deepcopy(value)
        return
    inside = raw["devicePlugins"][0] if head == _POOL else raw.setdefault(head, {})
    if inside is not None:
        set_in(inside, rest, value)


def identity(manifest: Object) -> Identity:
    """Return the kind and the name of an object; a Job that is named by its content has its general name."""
    kind, name = manifest["kind"], manifest["metadata"]["name"]
    return kind, CERTIFICATES_NAME if kind == "Job" and name.startswith(f"{CERTIFICATES_NAME}-") else name


def _combinations(choices: Sequence[Choice]) -> list[Combination]:
    return list(product(*(choice.options for choice in choices)))


def _variants(choices: Sequence[Choice]) -> dict[Combination, dict[Identity, Object]]:
    found = {}
    for combination in _combinations(choices):
        try:
            settings = settings_for(choices, combination)
        except ConfigError:
            continue
        found[combination] = {identity(each): _kept(each) for each in everything(settings)}
    return found


def _kept(manifest: Object) -> Object:
    if manifest["kind"] not in KEPT_KINDS and manifest["metadata"]["name"] not in KEPT_NAMES:
        return manifest
    metadata = manifest["metadata"]
    return manifest | {"metadata": {**metadata, "annotations": {**metadata.get("annotations", {}), **KEEP}}}


def _order(groups: Mapping[str, Mapping[Combination, Mapping[Identity, Object]]]) -> list[Identity]:
    """That of the builders; an object that only some combinations have is after its predecessor there."""
    order: list[Identity] = []
    for variants in groups.values():
        for objects in variants.values():
            position = 0
            for each in objects:
                if each not in order:
                    order.insert(position, each)
                position = order.index(each) + 1
    return order


def _found(own: Identity, groups: Mapping[str, Mapping[Combination, Mapping[Identity, Object]]]) -> Found:
    varying = [name for name, variants in groups.items() if _varies(own, variants)]
    if len(varying) > 1:
        raise GpuShareError(
            f"chart: {' '.join(own)} depends on choices of {' and '.join(varying)}: join them"
        )
    name = (varying or list(groups))[0]
    having = {key: each[own] for key, each in groups[name].items() if own in each}
    return Found(*own, merge(having), when(frozenset(having), frozenset(groups[name])), name)


def _varies(own: Identity, variants: Mapping[Combination, Mapping[Identity, Object]]) -> bool:
    first, *others = (each.get(own) for each in variants.values())
    return any(each != first for each in others)


def _marked(record: Any, path: Sequence[str], text: str, *, is_number: bool) -> Any:
    """With a marker at a path of fields in camel case; unchanged where a part or a value is missing."""
    head, *rest = path
    if head == _POOL:
        (pool,) = record.device_plugins
        return replace(record, device_plugins=(_marked(pool, rest, text, is_number=is_number),))
    name = _snake(head, record)
    value = getattr(record, name)
    if value is None:
        return record
    if rest:
        return replace(record, **{name: _marked(value, rest, text, is_number=is_number)})
    chosen: Any = int(text) if is_number else text
    return replace(record, **{name: {text: ""} if isinstance(value, Mapping) else chosen})


def _snake(camel: str, record: Any) -> str:
    if not is_dataclass(record):
        raise GpuShareError(f"chart: {camel} is not in a settings class")
    return next(each.name for each in fields(record) if each.name.replace("_", "") == camel.lower())
