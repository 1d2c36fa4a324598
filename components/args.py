"""TypedDicts of the settings for Pulumi's schema analyser, so that each field is declared once.

The analyser (``pulumi.provider.experimental``) requires TypedDicts with docstrings below their fields, which
it finds by the name of the type in the source of its module. So each settings class gets a TypedDict with the
same name and module; a field with a default is not required.
"""

import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, NotRequired, TypedDict, Union, cast, get_args, get_origin, get_type_hints

import pulumi

from components.decode import spelled
from components.options import meaning_of
from components.outputs import is_passed
from gpushare.kubescheduler.config import KubernetesVersion


@cache
def published(kind: type[Any]) -> Any:
    """The TypedDict of a settings class."""
    hints = get_type_hints(kind)
    members = {
        each.name: _member(
            hints[each.name],
            required=each.default is each.default_factory is MISSING,
            passed=is_passed(_owner(kind), spelled(each.name)),
        )
        for each in fields(kind)
    }
    args = cast("Any", TypedDict)(kind.__name__, members)
    args.__module__, args.__qualname__, args.__doc__ = kind.__module__, kind.__qualname__, kind.__doc__
    args.__texts__ = {each.name: text for each in fields(kind) if (text := meaning_of(each))}
    return args


def text_of(args: type[Any], field: str) -> str | None:
    """The text of a field that is not in the source of its class."""
    texts: Mapping[str, str] = getattr(args, "__texts__", {})
    return texts.get(field)


def _owner(kind: type[Any]) -> str:
    """The setting with a list of the class: ``tenants``."""
    return f"{kind.__name__.lower()}s"


def _member(kind: Any, *, required: bool, passed: bool) -> Any:
    text: Any = pulumi.Input[str] if passed else str  # type: ignore[misc]  # a union, for mypy
    plain = _plain(kind, text)
    return plain if required else NotRequired[plain]


def _plain(kind: Any, text: Any = str) -> Any:
    """The type of the value in JSON; ``text`` is that of its texts."""
    shape: Any = get_origin(kind) or kind
    if is_dataclass(shape):
        return published(cast("type", shape))
    if shape in (Union, types.UnionType):
        return _plain(get_args(kind)[0], text)
    if shape is tuple:
        return list[_plain(get_args(kind)[0], text)]  # type: ignore[misc]  # made at run time
    if shape is Mapping:
        return dict[str, text]
    return text if kind in (str, KubernetesVersion) else kind
