"""The reference page of a stack's configuration: every key with its meaning, example, values and default.

What belongs here: the tables, made of the classes of ``components.config``, and the examples, which are the
values of the stacks that tests render. What does not: other reference pages (``docs.generate``).
"""

import ast
import inspect
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import click

from components import config, config_extender, config_monitoring, config_pods
from components.decode import spelled
from components.options import accepted, default_of, meaning_of, option_of, service_of
from components.stack import from_file, load
from gpushare.kubescheduler.config import KubernetesVersion
from gpushare.runtime.settings import options_of

SECTIONS: Mapping[str, type[Any]] = {
    "A stack": config.Stack,
    "`extender`": config_extender.Extender,
    "`tolerations`, each": config_pods.Toleration,
    "`extender.scheduler`": config_extender.Scheduler,
    "`extender.scheduler.webhook`": config_extender.Webhook,
    "`devicePlugins`, each": config.DevicePlugin,
    "`nodePools`, each": config.NodePool,
    "`installer`": config.Installer,
    "`isolation`": config.Isolation,
    "`mps`": config.Mps,
    "`monitoring`": config_monitoring.Monitoring,
    "`monitoring.exporter`": config_monitoring.Exporter,
    "`monitoring.metricsApi`": config_monitoring.MetricsApi,
    "`monitoring.board`": config_monitoring.Board,
    "`monitoring.prometheus`": config_monitoring.Prometheus,
    "`tenants`, each": config.Tenant,
    "`networkPolicies`": config.NetworkPolicies,
}
_ROOT = Path(__file__).parents[1]
_FOLDER = _ROOT / "tests" / "components" / "stacks"
_NAMES = ("everything", "managed", "sidecar", "installer", "node-port")
_STACKS = (_ROOT / "Pulumi.example.yaml", *(_FOLDER / f"{name}.yaml" for name in _NAMES))
_KINDS: Mapping[Any, str] = {
    str: "text",
    int: "integer",
    float: "number",
    bool: "`true`, `false`",
    KubernetesVersion: "text",
}
_LONGEST = 60
"""Characters of an example; the remainder of a longer one is left out."""


def page() -> str:
    """The page."""
    lines = [
        "# Configuration of a stack",
        "",
        "Keys of `Pulumi.<stack>.yaml`, after `gpushare:`. Whole files:",
    ]
    lines[-1] += " `Pulumi.example.yaml`, and [the quick start](../how-to/quick-start.md)."
    lines += [
        "",
        "The section of a service also has the options of its program, except for [those that its manifest",
        "decides](#options-that-manifests-decide). An option that is not set is not written: the program has",
        "its own default, which the table shows. `extraArgs` come after all other arguments, unchecked.",
    ]
    examples = _Examples()
    for title, kind in SECTIONS.items():
        lines += ["", f"## {title}", "", inspect.cleandoc(kind.__doc__ or "").replace("``", "`"), ""]
        lines += ["| key | meaning | values | default |", "|---|---|---|---|"]
        texts, hints = _docstrings(kind), get_type_hints(kind)
        for each in fields(kind):
            meaning = (meaning_of(each) or texts[each.name]).replace("``", "`").replace("|", "\\|")
            values = _option_values(each, _values(hints[each.name]))
            example = examples.of(kind, each)
            cells = (meaning + (f"<br>Example: {example}" if example else ""), values, _default(each))
            lines.append(f"| `{spelled(each.name)}` | {' | '.join(cells)} |")
    return "\n".join([*lines, *_decided()]) + "\n"


def _decided() -> list[str]:
    """The options that are no keys, with the reason."""
    lines = ["", "## Options that manifests decide", "", "| section | options | reason |", "|---|---|---|"]
    for title, kind in SECTIONS.items():
        if service := service_of(kind):
            flags: dict[str, list[str]] = {}
            for name, reason in service.owned.items():
                option = options_of(service.settings)[name]
                flags.setdefault(reason, []).append(f"`{max(option.opts, key=len)}`")
            section = title.removesuffix(", each").replace("`", "")
            lines += [f"| {section} | {', '.join(each)} | {reason} |" for reason, each in flags.items()]
    return lines


def _docstrings(kind: type[Any]) -> dict[str, str]:
    """The docstring of each field, including fields of base classes."""
    found: dict[str, str] = {}
    for part in reversed(kind.__mro__[:-1]):
        body = ast.parse(inspect.getsource(part)).body[0].body  # type: ignore[attr-defined]
        for field, text in pairwise(body):
            if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
                found[ast.unparse(field.target)] = " ".join(ast.literal_eval(text.value).split())
    return found


def _values(hint: Any) -> str:
    """What a key accepts."""
    if get_origin(hint) in (Union, UnionType):
        (hint,) = (each for each in get_args(hint) if each is not type(None))
    if get_origin(hint) is tuple:
        return f"list: {_values(get_args(hint)[0])}"
    if get_origin(hint) is Mapping or hint is Mapping:
        return "mapping: text"
    if hint in SECTIONS.values():
        return _link(hint)
    return _KINDS.get(hint) or ", ".join(f"`{each}`" for each in hint)


def _option_values(each: Field[Any], kind: str) -> str:
    """What a key of this kind accepts, with the bounds of an option."""
    option = option_of(each)
    if option is None:
        return kind
    if isinstance(option.type, click.Choice):
        return ", ".join(f"`{choice}`" for choice in option.type.choices)
    return ", ".join(filter(None, [kind, accepted(option.type)]))


def _link(kind: type[Any]) -> str:
    title = next(title for title, each in SECTIONS.items() if each is kind)
    heading = re.sub(r"[^a-z -]", "", title.lower()).replace(" ", "-")
    return f"[{title.removesuffix(', each')}](#{heading})"


def _default(each: Field[Any]) -> str:
    if option := option_of(each):
        return f"`{default}`" if (default := default_of(option)) else ""
    value = _default_value(each)
    if value is MISSING:
        return "required"
    return "" if value in (None, "", ()) or value == {} or is_dataclass(value) else f"`{_shown(value)}`"


def _default_value(each: Field[Any]) -> Any:
    return each.default if each.default_factory is MISSING else each.default_factory()


def _shown(value: Any) -> str:
    """A value as in YAML, on one line."""
    if isinstance(value, StrEnum):
        return value
    if isinstance(value, KubernetesVersion):
        return f'"{value}"'
    return json.dumps(dict(value) if isinstance(value, Mapping) else value, default=_non_empty)


def _non_empty(value: Any) -> dict[str, Any]:
    """The fields of a record that have a value."""
    named = {spelled(each.name): getattr(value, each.name) for each in fields(value)}
    return {name: each for name, each in named.items() if each}


class _Examples:
    """The values in the stacks that tests render, by class and field, and by the name of the field."""

    def __init__(self) -> None:
        self._by_class: dict[tuple[type[Any], str], str] = {}
        self._by_name: dict[str, str] = {}
        for path in _STACKS:
            for record, each, value in _set_values(load(from_file(path))):
                self._by_class.setdefault((type(record), each), value)
                self._by_name.setdefault(each, value)

    def of(self, kind: type[Any], each: Field[Any]) -> str:
        """A value of the key other than its default; empty if no stack has one, or if it has keys itself.

        A key without a default may have the example of a key with the same name, which means the same.
        """
        found = self._by_class.get((kind, each.name), "")
        return found if found or _default(each) else self._by_name.get(each.name, "")


def _set_values(record: Any) -> Iterator[tuple[Any, str, str]]:
    """The fields of a record, and of the records in it, that have another value than their default."""
    for each in fields(record):
        value = getattr(record, each.name)
        items = value if isinstance(value, tuple) else (value,)
        records = [item for item in items if is_dataclass(item) and not isinstance(item, KubernetesVersion)]
        for item in records:
            yield from _set_values(item)
        if not records and value != _default_value(each):
            yield record, each.name, _shortened(_shown(value))


def _shortened(text: str) -> str:
    first = text.partition(r"\n")[0]
    if first == text and len(text) <= _LONGEST:
        return f"`{text}`"
    return f"`{first[:_LONGEST]}…`"
