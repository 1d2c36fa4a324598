# Copied from gpushare/model/yaml_text.py by `make generate`; change it there.
"""YAML as kubectl and the kubelet read it, and written so that they read the same. Pure.

PyYAML reads dates, ``12:30`` (750) and ``=`` as something else than text, and ``y``, ``1e3`` and ``0o17`` as
text. The rules for plain scalars here are those of https://github.com/kubernetes-sigs/yaml. What does not
belong here: files, and what the documents mean.
"""

import math
import re
from collections.abc import Mapping
from typing import Any, Final

import yaml

_TAG: Final = "tag:yaml.org,2002:"
_TRUE: Final = ("y", "yes", "true", "on")
_FALSE: Final = ("n", "no", "false", "off")
_WORDS: Final = [form for word in (*_TRUE, *_FALSE) for form in (word, word.capitalize(), word.upper())]
_PLAIN: Final = (
    ("bool", "|".join(dict.fromkeys(_WORDS)), "yYnNtTfFoO"),
    ("float", r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", "-+."),
)
"""Tag, pattern and first characters of plain scalars that are neither text nor a number of digits."""
_INTEGER: Final = re.compile(r"[-+]?(?:0[bB][01]+|0[xX][0-9a-fA-F]+|0[oO]?[0-7]+|0|[1-9][0-9]{0,308})")
"""Longer ones exceed a float, which is text to go-yaml."""
_OCTAL: Final = re.compile(r"[-+]?0[0-7]+")
_SIGNED_BINARY: Final = re.compile(r"0b([-+][01]+)")
"""go-yaml parses the digits after ``0b`` with the sign."""
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_BETWEEN_DIGITS: Final = re.compile("(?<=[0-9])_(?=[0-9])")
_FIRST_OF_NUMBER: Final = tuple("-+.0123456789")
_INTEGERS: Final = range(-(2**63), 2**64)
"""Of int64 and uint64; go-yaml reads other decimal ones as floats, and the rest as text."""
_EXPONENT_FROM: Final = 1e21
"""JSON of Go has larger numbers with an exponent, which are no integers to it."""


def _number_in(text: str) -> tuple[str, int | float] | None:
    """Tag and value of a plain scalar that is a number; None if it is text.

    As ``resolve`` of https://github.com/yaml/go-yaml/blob/v2/resolve.go: underscores are removed first.
    """
    if not text.startswith(_FIRST_OF_NUMBER):
        return None
    plain = _BETWEEN_DIGITS.sub("", text) if text[0] == "." else text.replace("_", "")
    if signed := _SIGNED_BINARY.fullmatch(plain):
        return "int", int(signed[1], 2)
    tag = "int" if _INTEGER.fullmatch(plain) else "float"
    if tag == "int" and (number := int(plain, 8 if _OCTAL.fullmatch(plain) else 0)) in _INTEGERS:
        return tag, number
    if _FLOAT.fullmatch(plain) and math.isfinite(inexact := float(plain)):
        return tag, _whole(inexact)
    return None


def _whole(number: float) -> int | float:
    """A whole number is an int, as in the JSON that kubectl makes of it."""
    return int(number) if number.is_integer() and abs(number) < _EXPONENT_FROM else number


def _boolean(_loader: yaml.SafeLoader, node: Any) -> bool:
    return str(node.value).lower() in _TRUE


def _integer(loader: yaml.SafeLoader, node: Any) -> int | float:
    tag, number = _number_in(str(loader.construct_scalar(node))) or ("", 0)
    if tag != "int":
        raise ValueError(f"{node.value!r} is not an integer")
    return number


def _float(loader: yaml.SafeLoader, node: Any) -> float:
    found = _number_in(str(loader.construct_scalar(node)))
    return found[1] if found else loader.construct_yaml_float(node)


_BY_TAG: Final = yaml.SafeLoader.yaml_constructors


class _Resolver(yaml.resolver.Resolver):
    """Finds numbers as go-yaml does, which no pattern of PyYAML's resolver can express."""

    def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:
        found = _number_in(value) if kind is yaml.ScalarNode and implicit[0] else None
        return f"{_TAG}{found[0]}" if found else super().resolve(kind, value, implicit)  # type: ignore[no-untyped-call]


class _Loader(_Resolver, yaml.SafeLoader):
    """Only values that JSON has; dates are text, and no value contains itself."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - as in its base
        first: [(tag, pattern) for tag, pattern in found if tag in (f"{_TAG}null", f"{_TAG}merge")]
        for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    yaml_constructors = {  # noqa: RUF012 - as in its base
        **{f"{_TAG}{name}": _BY_TAG[f"{_TAG}{name}"] for name in ("null", "str", "seq", "map")},
        f"{_TAG}bool": _boolean,
        f"{_TAG}int": _integer,
        f"{_TAG}float": _float,
        f"{_TAG}timestamp": yaml.SafeLoader.construct_yaml_str,
        None: yaml.SafeLoader.construct_undefined,
    }

    def construct_document(self, node: Any) -> Any:
        self.deep_construct = True  # otherwise what is in a list or mapping is made after it, and may be it
        return super().construct_document(node)

    def construct_object(self, node: Any, deep: bool = False) -> Any:  # noqa: FBT001, FBT002 - as in its base
        if node in self.recursive_objects:
            raise yaml.constructor.ConstructorError(None, None, "a value contains itself", node.start_mark)
        return super().construct_object(node, deep)


class Dumper(_Resolver, yaml.SafeDumper):
    """Quotes every text that PyYAML or kubectl would read as something else."""


for _name, _pattern, _first in _PLAIN:
    for _class in (_Loader, Dumper):
        _class.add_implicit_resolver(f"{_TAG}{_name}", re.compile(f"(?:{_pattern})$"), list(_first))


def parse(text: str) -> Any:
    """Return the only document, None without one. Raises yaml.YAMLError."""
    found = parse_all(text)
    if len(found) > 1:
        raise yaml.YAMLError(f"expected a single document, found {len(found)}")
    return found[0] if found else None


def parse_all(text: str) -> list[Any]:
    """Return the documents. Raises yaml.YAMLError."""
    try:
        return list(yaml.load_all(text, _Loader))
    except ValueError as error:  # of a number, such as !!int x
        raise yaml.YAMLError(str(error)) from error
    except RecursionError as error:
        raise yaml.YAMLError("lists and mappings are nested too deeply") from error


def dump(content: Mapping[str, Any]) -> str:
    """Return a document in block style with the keys in their order."""
    text: str = yaml.dump(content, Dumper=Dumper, sort_keys=False)
    return text
