"""From the configuration of a stack (file or engine) to checked settings."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import yaml

from components.checks import check
from components.config import ClusterSettings, Stack
from components.decode import settings_from
from gpushare.errors import ConfigError, cause_of
from gpushare.model.yaml_text import parse

S = TypeVar("S", ClusterSettings, Stack)

_PROJECT: Final = Path(__file__).parents[1]
"""Base folder of relative file names in a stack."""
_PREFIX: Final = "gpushare:"
"""Prefix of the keys of this project; other projects and providers have other prefixes."""
_TEXTS: Final = ("kubernetesVersion", "kubeconfig", "context", "clusterUid", "registry")
_IMAGES: Final = "images"


def load(raw: Mapping[str, object]) -> Stack:
    """A stack from plain values, checked. Raises ConfigError for the first error."""
    return checked_settings(_with_images(raw), Stack)


def checked_settings(raw: Mapping[str, object], kind: type[S]) -> S:
    """Settings from plain values, checked. Raises ConfigError for the first error."""
    return check(settings_from(raw, kind))


def from_engine(config: Mapping[str, str]) -> dict[str, object]:
    """Plain values from the engine: strings unchanged, everything else as JSON."""
    return {key: text if key in _TEXTS else _parsed(text) for key, text in _own(config).items()}


def from_file(path: Path) -> dict[str, object]:
    """Plain values from a ``Pulumi.<stack>.yaml``. Raises ConfigError if it cannot be read."""
    text = _read(path)
    try:
        document = parse(text)
        _reject_repeated_keys(yaml.compose(text))
    except yaml.YAMLError as error:
        raise ConfigError(f"is not YAML: {cause_of(error)}") from error
    config = document.get("config") if isinstance(document, dict) else None
    if not isinstance(config, dict):
        raise ConfigError("has no mapping 'config'")
    return _without_secrets(_own(config))


def _reject_repeated_keys(node: yaml.Node | None) -> None:
    """Raises ConfigError for a key that a mapping has twice, as the engine does; PyYAML takes the last."""
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if key.value in seen:
                raise ConfigError(f"line {key.start_mark.line + 1}: key {key.value!r} is there twice")
            seen.add(key.value)
            _reject_repeated_keys(value)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            _reject_repeated_keys(value)


def _without_secrets(config: dict[str, Any]) -> dict[str, Any]:
    """Without an encrypted kubeconfig, which only Pulumi needs and can decrypt."""
    encrypted = [key for key, value in config.items() if isinstance(value, dict) and "secure" in value]
    for key in encrypted:
        if key != "kubeconfig":
            raise ConfigError(f"{key}: is encrypted, and only Pulumi can decrypt it; set it without --secret")
    return {key: value for key, value in config.items() if key not in encrypted}


def _with_images(raw: Mapping[str, object]) -> Mapping[str, object]:
    """Replaces ``images`` by the content of the file if it is a file name."""
    images = raw.get(_IMAGES)
    if not isinstance(images, str):
        return raw
    file = _PROJECT / images
    try:
        content = json.loads(_read(file))
    except ConfigError as error:
        raise ConfigError(f"{_IMAGES}: {file} {error}; create it with make images") from error
    except json.JSONDecodeError as error:
        raise ConfigError(f"{_IMAGES}: {file} is not JSON: {error}") from error
    return {**raw, _IMAGES: content}


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"is not text: {cause_of(error)}") from error


def _own(config: Mapping[Any, Any]) -> dict[str, Any]:
    """Without a namespace, a key is one of the project, as for Pulumi."""
    named = {str(key): value for key, value in config.items()}
    return {
        key.removeprefix(_PREFIX): value
        for key, value in named.items()
        if key.startswith(_PREFIX) or ":" not in key
    }


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text
