# Copied from gpushare/model/yaml_text.py by `make collection-modules`; change it there.
"""YAML as kubectl and the kubelet read it, and written so that they read the same. Pure.

PyYAML reads dates, ``12:30`` (750) and ``=`` as something else than text, and ``y``, ``1e3`` and ``0o17`` as
text. The rules for plain scalars here are those of https://github.com/kubernetes-sigs/yaml. What does not
belong here: files, and what the documents mean.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

import yaml

_TAG: Final = "tag:yaml.org,2002:"
_TRUE: Final = ("y", "yes", "true", "on")
_FALSE: Final = ("n", "no", "false", "off")
_WORDS: Final = [form for word in (*_TRUE, *_FALSE) for form in (word, word.capitalize(), word.upper())]
_OCTAL: Final = re.compile(r"[-+]?0[0-7]+")
_EXPONENT_FROM: Final = 1e21
"""JSON of Go has larger numbers with an exponent, which are no integers to it."""
_PLAIN: Final = (
    ("bool", "|".join(dict.fromkeys(_WORDS)), "yYnNtTfFoO"),
    ("int", r"[-+]?(?:0[bB][01]+|0[xX][0-9a-fA-F]+|0[oO]?[0-7]+|0|[1-9][0-9_]*)", "-+0123456789"),
    ("float", r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", "-+.0123456789"),
    ("float", r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", "-+."),
)
"""Tag, pattern and first characters of plain scalars that are no text; the first pattern wins."""


def _boolean(_loader: yaml.SafeLoader, node: Any) -> bool:
    return str(node.value).lower() in _TRUE


def _integer(_loader: yaml.SafeLoader, node: Any) -> int:
    digits = str(node.value).replace("_", "")
    return int(digits, 8 if _OCTAL.fullmatch(digits) else 0)


def _number(loader: yaml.SafeLoader, node: Any) -> float:
    """A whole number is an int, as in the JSON that kubectl makes of it."""
    number = loader.construct_yaml_float(node)
    return int(number) if number.is_integer() and abs(number) < _EXPONENT_FROM else number


_BY_TAG: Final = yaml.SafeLoader.yaml_constructors


class _Loader(yaml.SafeLoader):
    """Only values that JSON has; dates are text, and no value contains itself."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - as in its base
        first: [(tag, pattern) for tag, pattern in found if tag in (f"{_TAG}null", f"{_TAG}merge")]
        for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    yaml_constructors = {  # noqa: RUF012 - as in its base
        **{f"{_TAG}{name}": _BY_TAG[f"{_TAG}{name}"] for name in ("null", "str", "seq", "map")},
        f"{_TAG}bool": _boolean,
        f"{_TAG}int": _integer,
        f"{_TAG}float": _number,
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


class Dumper(yaml.SafeDumper):
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
