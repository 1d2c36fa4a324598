"""Reads and edits settings files of other programs, as text.

What belongs here: JSON, TOML and YAML documents with a table at the top level. What does not: the settings
of a role (the roles), and files (their tasks). Other content is kept: without a change the text is identical,
other keys keep their values and order, in TOML also their comments.

community.general has ``from_toml`` and ``to_toml`` since 13.1, but they drop comments.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, NamedTuple

import tomlkit
import yaml
from tomlkit.exceptions import ParseError, TOMLKitError
from tomlkit.items import InlineTable

from ansible_collections.gpushare.nodes.plugins.plugin_utils.gpushare.errors import ConfigError
from ansible_collections.gpushare.nodes.plugins.plugin_utils.gpushare.model import yaml_text

Table = dict[str, Any]

_INDENT = re.compile(r'^([ \t]+)"', re.MULTILINE)


class ConfigTextError(ConfigError):
    """A document that cannot be parsed or changed; the message starts with file, line and column."""


class _Format(NamedTuple):
    read: Callable[[str, str], Any]
    write: Callable[[str, Table, Table], str]


def parse(text: str, kind: str, path: str) -> Table:
    """Return the settings in ``text``, an empty table for an empty text.

    ``kind`` is json, toml or yaml; ``path`` is the file's name for messages. Raises ConfigTextError.
    """
    data = _format(kind).read(text, path) if text.strip() else None
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise ConfigTextError(f"{path}:1:1: a table of settings is required, not {type(data).__name__}")
    return data


def merge(text: str, changes: Table, kind: str, path: str) -> str:
    """Return ``text`` with ``changes``: tables are merged, other values are replaced, None removes a key.

    Raises ConfigTextError if ``text`` is invalid, or has a plain value where ``changes`` has a table.
    """
    current = parse(text, kind, path)
    result = merged(current, changes, path)
    return text if result == current else _format(kind).write(text, changes, result)


def merged(current: Mapping[str, Any], changes: Mapping[str, Any], path: str, *above: str) -> Table:
    """Like ``merge``, for parsed settings."""
    result = dict(current)
    for key, value in changes.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping):
            inner = result.get(key, {})
            if not isinstance(inner, Mapping):
                raise ConfigTextError(
                    f"{path}: {'.'.join((*above, key))} is {inner!r}, not a table of settings"
                )
            result[key] = merged(inner, value, path, *above, key)
        else:
            result[key] = value
    return result


def _format(kind: str) -> _Format:
    try:
        return _FORMATS[kind]
    except KeyError:
        raise ConfigTextError(f"{kind!r} is not a format: use one of {', '.join(_FORMATS)}") from None


def _read_json(text: str, path: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigTextError(f"{path}:{error.lineno}:{error.colno}: {error.msg}") from error


def _write_json(text: str, _changes: Table, result: Table) -> str:
    indent = _INDENT.search(text)
    return json.dumps(result, indent=indent[1] if indent else 2, ensure_ascii=False) + "\n"


def _read_toml(text: str, path: str) -> Any:
    try:
        return tomlkit.parse(text).unwrap()
    except ParseError as error:
        raise ConfigTextError(f"{path}:{error.line}:{error.col}: {error}") from error
    except TOMLKitError as error:
        raise ConfigTextError(f"{path}:1:1: {error}") from error


def _write_toml(text: str, changes: Table, result: Table) -> str:
    """Edit the document in place; if that gives another result, write it without comments."""
    document = tomlkit.parse(text)
    _edit_toml(document, changes)
    edited = tomlkit.dumps(document)
    return edited if _means(edited, result) else tomlkit.dumps(result)


def _means(text: str, result: Table) -> bool:
    try:
        return tomllib.loads(text) == result
    except tomllib.TOMLDecodeError:
        return False


def _edit_toml(table: MutableMapping[str, Any], changes: Table) -> None:
    for key, value in changes.items():
        if value is None:
            table.pop(key, None)
        elif isinstance(value, dict) and key in table:
            _edit_toml(table[key], value)
        elif isinstance(value, dict) and not isinstance(table, InlineTable):
            # A table that has only tables needs no header.
            table[key] = tomlkit.table(is_super_table=all(isinstance(item, dict) for item in value.values()))
            _edit_toml(table[key], value)
        elif key not in table or table[key] != value:
            table[key] = value


def _read_yaml(text: str, path: str) -> Any:
    try:
        return yaml_text.parse(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        position = f"{mark.line + 1}:{mark.column + 1}" if mark else "1:1"
        raise ConfigTextError(f"{path}:{position}: {error.problem}") from error
    except yaml.YAMLError as error:
        raise ConfigTextError(f"{path}:1:1: {error}") from error


def _write_yaml(_text: str, _changes: Table, result: Table) -> str:
    written: str = yaml.dump(result, Dumper=yaml_text.Dumper, sort_keys=False, allow_unicode=True)
    return written


_FORMATS = {
    "json": _Format(_read_json, _write_json),
    "toml": _Format(_read_toml, _write_toml),
    "yaml": _Format(_read_yaml, _write_yaml),
}
