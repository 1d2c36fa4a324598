"""Outputs of other resources in the settings of a component: digests of images, names of namespaces.

Builders and checks are pure and need texts. So a text of the same format stands for each output while the
objects are built, and is replaced by the output in them. The value itself is checked as soon as it is known.
"""

import base64
import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pulumi

from components.config import ClusterSettings
from components.decode import spelled
from components.manifests.localized import mirrored
from components.stack import checked_settings
from gpushare.errors import ConfigError

Settings = Mapping[str, object]


def _name(path: str) -> str:
    """Ends with a letter, so that none is a part of another."""
    return f"output-{re.sub('[^a-z0-9]+', '-', path.lower()).strip('-')}-x"


def _image(path: str) -> str:
    return f"{_name(path)}@sha256:{hashlib.sha256(path.encode()).hexdigest()}"


def _certificate(path: str) -> str:
    return f"-----BEGIN CERTIFICATE-----{_name(path)}"


_FORMATS: Final[Mapping[str, Callable[[str], str]]] = {
    "image": _image,
    "certificatesImage": _image,
    "images": _image,
    "tlsSecret": _name,
    "imagePullSecrets": _name,
    "priorityClass": _name,
    "runtimeClass": _name,
    "storageClass": _name,
    "monitoringNamespaces": _name,
    "viewers": _name,
    "annotations": _name,
    "caBundle": _certificate,
    "tenants.name": _name,
}
"""Settings that are only inserted into objects, in camel case, and the texts that stand for them."""
_MAPS: Final = ("images", "annotations")
"""Mappings of any keys."""


@dataclass(frozen=True, slots=True)
class Outputs:
    """Settings with texts instead of outputs, and the output of each text."""

    settings: Settings
    by_text: Mapping[str, pulumi.Output[Any]]

    def inserted(self, value: Any) -> Any:
        """A manifest, or a part of one, with the outputs in it."""
        if isinstance(value, Mapping):
            return {key: self.inserted(each) for key, each in value.items()}
        if isinstance(value, list):
            return [self.inserted(each) for each in value]
        return self._text(value) if isinstance(value, str) else value

    def _text(self, text: str) -> str | pulumi.Output[str]:
        for found, output in self.by_text.items():
            if found in text:
                before, _, after = text.partition(found)
                return pulumi.Output.concat(self._text(before), output, self._text(after))
        return text


def is_passed(owner: str, field: str) -> bool:
    """Whether a setting may be an output; ``owner`` is the setting that has it, in camel case."""
    return field in _FORMATS or f"{owner}.{field}" in _FORMATS


def separated(args: Settings) -> Outputs:
    """Raises ConfigError for an output that builders or checks need as a value."""
    found: dict[str, pulumi.Output[Any]] = {}
    settings = {key: _separated(each, spelled(key), ("", spelled(key)), found) for key, each in args.items()}
    registry = settings.get("registry")
    by_text: dict[str, pulumi.Output[Any]] = {}
    for text, output in found.items():
        value = output.apply(lambda given, text=text: _checked(settings, text, given))  # type: ignore[misc]
        by_text |= _forms(text, value, registry if isinstance(registry, str) else "")
    return Outputs(settings, by_text)


def _separated(value: Any, path: str, where: tuple[str, str], found: dict[str, pulumi.Output[Any]]) -> Any:
    """The value with texts; ``where`` is the setting and the one around it."""
    owner, field = where
    if isinstance(value, pulumi.Output):
        text = _standing_for(path, owner, field)
        found[text] = value
        return text
    if isinstance(value, list):
        return [_separated(each, f"{path}[{index}]", where, found) for index, each in enumerate(value)]
    if not isinstance(value, Mapping):
        return value
    return {
        key: _separated(
            each, f"{path}.{spelled(key)}", where if field in _MAPS else (field, spelled(key)), found
        )
        for key, each in value.items()
    }


def _standing_for(path: str, owner: str, field: str) -> str:
    if path in _MAPS or not is_passed(owner, field):
        raise ConfigError(
            f"{path}: is an output of a resource, and its value is needed before that exists; use a plain "
            f"value. Outputs are possible in {', '.join(_FORMATS)}"
        )
    return (_FORMATS.get(field) or _FORMATS[f"{owner}.{field}"])(path)


def _checked(settings: Settings, text: str, value: object) -> object:
    """The value of an output. Raises ConfigError if it is invalid in these settings."""
    checked_settings(_replaced(settings, text, value), ClusterSettings)
    return value


def _replaced(given: Any, text: str, value: object) -> Any:
    if isinstance(given, Mapping):
        return {key: _replaced(each, text, value) for key, each in given.items()}
    if isinstance(given, list):
        return [_replaced(each, text, value) for each in given]
    return value if given == text else given


def _forms(text: str, value: pulumi.Output[Any], registry: str) -> dict[str, pulumi.Output[Any]]:
    """The forms in which builders insert a text, the longest first: in a mirror, in Base64, as it is."""
    coded = base64.b64encode(text.encode()).decode()
    return {
        mirrored(text, registry): value.apply(lambda image: mirrored(image, registry)),
        coded: value.apply(lambda pem: base64.b64encode(pem.encode()).decode()),
        text: value,
    }
