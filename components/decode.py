"""Decodes plain values of YAML and JSON to settings. Unknown keys and wrong types are errors.

A type may have the format of its values (``components.formats``). Errors name the key, the value and the
allowed values.
"""

import json
import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Annotated, Any, Final, TypeVar, Union, get_args, get_origin, get_type_hints

from gpushare.errors import ConfigError
from gpushare.kubescheduler.config import KubernetesVersion, parse_version

_SCALARS: Final[Mapping[type, str]] = {str: "a string", int: "an integer", bool: "true or false"}

S = TypeVar("S")


def settings_from(raw: Mapping[str, object], kind: type[S]) -> S:
    """The settings of that class. Raises ConfigError for the first error."""
    settings: S = _record(kind, raw, "")
    return settings


def _value(kind: Any, value: object, where: str) -> Any:
    """The value, converted to the type, in the format of the type."""
    shape: Any = get_origin(kind) or kind
    if shape is Annotated:
        inner, *checks = get_args(kind)
        found = _value(inner, value, where)
        for check in checks:
            check(where, found)
        return found
    if is_dataclass(shape):
        return _record(kind, value, where)
    # What has no reader is an enumeration.
    return _READERS.get(shape, _choice)(kind, value, where)


def _record(kind: Any, value: object, where: str) -> Any:
    raw_fields = _respelled(value, where)
    hints = get_type_hints(kind, include_extras=True)
    known = {spelled(each.name): each for each in fields(kind)}
    for key in raw_fields:
        if key not in known:
            raise ConfigError(f"{_path(where, key)}: unknown key; use one of {', '.join(known)}")
    for key, each in known.items():
        if key not in raw_fields and _required(each):
            raise ConfigError(f"{_path(where, key)}: missing")
    return kind(
        **{
            each.name: _value(hints[each.name], raw_fields[key], _path(where, key))
            for key, each in known.items()
            if key in raw_fields
        }
    )


def _respelled(value: object, where: str) -> Mapping[str, object]:
    """A mapping with keys in camel case; Pulumi passes them to a component in snake case."""
    raw_fields: dict[str, object] = {}
    for key, each in _mapping(value, where).items():
        if spelled(key) in raw_fields:
            raise ConfigError(f"{_path(where, key)}: is also set as {spelled(key)}; keep one")
        raw_fields[spelled(key)] = each
    return raw_fields


def shown(value: object) -> str:
    """A value as in the configuration: true, null and [1], not as Python writes them."""
    if isinstance(value, str):
        return repr(value)
    return json.dumps(value, ensure_ascii=False, default=str)


def _required(each: Field[Any]) -> bool:
    return each.default is MISSING and each.default_factory is MISSING


def _mapping(value: object, where: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{where}: {shown(value)} is not a mapping of keys to values")
    for key in value:
        if not isinstance(key, str):
            raise ConfigError(
                f"{_path(where, str(key))}: the key {shown(key)} is not a string; put it in quotes"
            )
    return value


def _optional(kind: Any, value: object, where: str) -> Any:
    return None if value is None else _value(get_args(kind)[0], value, where)


def _many(kind: Any, value: object, where: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise ConfigError(f"{where}: {shown(value)} is not a list")
    inner = get_args(kind)[0]
    return tuple(_value(inner, each, f"{where}[{index}]") for index, each in enumerate(value))


def _texts(kind: Any, value: object, where: str) -> dict[str, str]:
    del kind
    return {key: _scalar(str, each, _path(where, key)) for key, each in _mapping(value, where).items()}


def _scalar(kind: Any, value: object, where: str) -> Any:
    if type(value) is kind:
        return value
    quotes = "; put it in quotes" if kind is str and isinstance(value, bool | int | float) else ""
    raise ConfigError(f"{where}: {shown(value)} is not {_SCALARS[kind]}{quotes}")


def _whole(kind: Any, value: object, where: str) -> Any:
    """Pulumi sends every number as a float."""
    whole = int(value) if isinstance(value, float) and value.is_integer() else value
    return _scalar(kind, whole, where)


def _number(kind: Any, value: object, where: str) -> Any:
    """A number; without its fraction if it has none, as Pulumi sends every number as a float."""
    if type(value) not in (int, float):
        raise ConfigError(f"{where}: {shown(value)} is not a number")
    del kind
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _version(kind: Any, value: object, where: str) -> KubernetesVersion:
    del kind
    text = _scalar(str, value, where)
    try:
        return parse_version(text)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error


def _choice(kind: Any, value: object, where: str) -> Any:
    if value not in list(kind):
        raise ConfigError(f"{where}: {shown(value)} is not allowed; use one of {', '.join(kind)}")
    return kind(value)


_READERS: Final[Mapping[Any, Callable[[Any, object, str], Any]]] = {
    str: _scalar,
    int: _whole,
    float: _number,
    bool: _scalar,
    KubernetesVersion: _version,
    types.UnionType: _optional,
    Union: _optional,
    tuple: _many,
    Mapping: _texts,
}


def spelled(name: str) -> str:
    """``memory_unit`` is ``memoryUnit`` in the configuration."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _path(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key
