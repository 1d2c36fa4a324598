"""Reference pages generated from code: names on the wire, metrics, rules, flags, configuration of a stack.

Run by ``conf.py`` at every build; the pages are not committed.
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
from typing import Any

import click

from components import config
from components.decode import spelled
from components.manifests import certificates as certificates_manifests
from components.manifests import device_plugin as agent_manifests
from components.manifests import exporter as exporter_manifests
from components.manifests import extender as extender_manifests
from components.manifests import installer as installer_manifests
from components.manifests import metrics_api as metrics_api_manifests
from components.manifests import viewers as viewers_manifests
from components.manifests.parts import Object
from gpushare import contract
from gpushare.cli.main import plugin
from gpushare.deviceplugin.main import command as device_plugin
from gpushare.exporter.main import command as exporter
from gpushare.extender.main import command as extender
from gpushare.kubescheduler.config import KubernetesVersion
from gpushare.metricsapi.main import command as metrics_api
from gpushare.monitoring import catalogue
from gpushare.monitoring.alerts import ALERTS
from gpushare.monitoring.rules import RULES

SECTIONS: Mapping[str, type[Any]] = {
    "A stack": config.Stack,
    "`extender`": config.Extender,
    "`tolerations`, each": config.Toleration,
    "`extender.scheduler`": config.Scheduler,
    "`extender.scheduler.webhook`": config.Webhook,
    "`devicePlugins`, each": config.DevicePlugin,
    "`nodePools`, each": config.NodePool,
    "`installer`": config.Installer,
    "`isolation`": config.Isolation,
    "`mps`": config.Mps,
    "`monitoring`": config.Monitoring,
    "`monitoring.exporter`": config.Exporter,
    "`monitoring.metricsApi`": config.MetricsApi,
    "`tenants`, each": config.Tenant,
    "`networkPolicies`": config.NetworkPolicies,
    "`kubeconfigFrom`": config.Elsewhere,
}
REFERENCE = Path(__file__).parent / "reference"
VERSION = KubernetesVersion(1, 33)
STACK = config.Extender(certificates_image="none")
ROLES: Mapping[str, list[Object]] = {
    "Extender": extender_manifests.objects(config.Extender(), VERSION),
    "Node agent (`nodes/pods` only with `queryKubelet`)": agent_manifests.shared(VERSION, query_kubelet=True),
    "Exporter": exporter_manifests.objects(config.Exporter()),
    "Metrics API": metrics_api_manifests.objects(config.MetricsApi(tls_secret="", ca_bundle=""), VERSION),
    "Installer": installer_manifests.objects(config.Installer(), STACK, VERSION),
    "Viewers (groups of users in `monitoring.viewers`)": viewers_manifests.objects(["viewers"]),
    "Certificates": certificates_manifests.objects(STACK, VERSION),
}


def main() -> None:
    """Write all pages."""
    (REFERENCE / "names.md").write_text(names())
    (REFERENCE / "rights.md").write_text(rights())
    (REFERENCE / "metrics.md").write_text(metrics())
    (REFERENCE / "rules.md").write_text(rules())
    (REFERENCE / "extender-flags.md").write_text(flags("extender", extender))
    (REFERENCE / "configuration.md").write_text(configuration())
    (REFERENCE / "device-plugin-flags.md").write_text(flags("device plugin", device_plugin))
    (REFERENCE / "exporter-flags.md").write_text(flags("exporter", exporter))
    (REFERENCE / "metrics-api-flags.md").write_text(flags("metrics API", metrics_api))
    (REFERENCE / "kubectl-gpushare.md").write_text(commands("kubectl gpushare", plugin))


def names() -> str:
    """Every constant of the contract, in the order and under the headings of its source file."""
    lines = ["# Names on the wire", ""]
    for line in Path(contract.__file__).read_text().splitlines():
        heading = re.match(r"# --- (.+?) -+$", line)
        constant = re.match(r"([A-Z_]+): Final = ", line)
        text = re.match(r'"""(.+)"""$', line)
        if heading:
            lines += ["", f"## {heading[1][0].upper()}{heading[1][1:]}", ""]
        elif constant:
            value = getattr(contract, constant[1])
            shown = ", ".join(map(str, value)) if isinstance(value, tuple) else value
            lines.append(f"- `{shown}` ({constant[1]})")
        elif text and lines[-1].startswith("- "):
            lines[-1] += f": {text[1].replace('``', '`')}"
    return "\n".join(lines) + "\n"


def rights() -> str:
    """Every right of every service account."""
    lines = [
        "# Rights",
        "",
        "The rights of each service account in the API server. A test runs all services with exactly these,",
        "and each service without each one: a missing right is reported by its name. Services that are not",
        "listed have no account. Metrics API and sidecar scheduler also have roles of Kubernetes.",
        "",
        "| account | resources | verbs | where |",
        "|---|---|---|---|",
    ]
    for service, objects in ROLES.items():
        for each in objects:
            lines += [f"| {service} | {_right(each['kind'], rule)} |" for rule in each.get("rules", ())]
    return "\n".join(lines) + "\n"


def _right(kind: str, rule: Object) -> str:
    resources = ", ".join(f"`{each}`" for each in rule["resources"])
    named = ", ".join(f"`{each}`" for each in rule.get("resourceNames", ()))
    place = "cluster" if kind == "ClusterRole" else "`kube-system`"
    return " | ".join([resources, ", ".join(rule["verbs"]), f"{place}, only {named}" if named else place])


def metrics() -> str:
    """Every metric of every daemon."""
    lines = ["# Metrics", "", "| name | kind | labels | meaning |", "|---|---|---|---|"]
    lines += [
        f"| `{metric}` | {metric.kind} | {', '.join(metric.labels)} | {metric.help} |"
        for metric in catalogue.ALL
    ]
    return "\n".join(lines) + "\n"


def rules() -> str:
    """Every recording rule and every alert."""
    lines = ["# Rules and alerts", "", "## Recording rules", "", "| series | meaning |", "|---|---|"]
    lines += [f"| `{rule}` | {rule.help} |" for rule in RULES]
    lines += ["", "## Alerts", "", "| alert | severity | after | query |", "|---|---|---|---|"]
    for alert in ALERTS:
        query = " ".join(alert.expr.split())
        link = f"[{alert.name}](../how-to/runbooks.md#{alert.name.lower()})"
        lines.append(f"| {link} | {alert.severity} | {alert.lasts} | `{query}` |")
    return "\n".join(lines) + "\n"


def flags(name: str, command: click.Command) -> str:
    """Every flag of a daemon."""
    lines = [f"# Flags of the {name}", "", "| flag | variable | default | meaning |", "|---|---|---|---|"]
    for option in command.params:
        if isinstance(option, click.Option) and not option.hidden:
            variable = f"`{option.envvar}`" if option.envvar else ""
            lines.append(f"| `{max(option.opts, key=len)}` | {variable} | {' | '.join(_explained(option))} |")
    return "\n".join(lines) + "\n"


def commands(name: str, group: click.Group) -> str:
    """The help of every command of a program."""
    return "\n".join([f"# Commands of {name}", "", *_helps(name, group)])


def _helps(name: str, group: click.Group) -> Iterator[str]:
    context = click.Context(group, info_name=name)
    for each in group.list_commands(context):
        command = group.get_command(context, each)
        assert command is not None  # noqa: S101 - a listed command exists
        yield from (f"## {name} {each}", "", "```text")
        yield from (command.get_help(click.Context(command, info_name=f"{name} {each}")), "```", "")
        if isinstance(command, click.Group):
            yield from _helps(f"{name} {each}", command)


def _explained(option: click.Option) -> tuple[str, str]:
    """The default of a flag, which may be stated in its help, and its meaning."""
    meaning, _, stated = (option.help or "").partition("  [default: ")
    if isinstance(option.type, click.Choice):
        meaning += f" One of {', '.join(map(str, option.type.choices))}."
    if stated:
        return stated.removesuffix("]"), meaning
    if option.is_flag or isinstance(option.default, bool):
        return "on" if option.default is True else "off", meaning
    return str(option.default) if isinstance(option.default, str | int | float | Path) else "", meaning


def configuration() -> str:
    """Every key of a stack's configuration, with its default."""
    lines = ["# Configuration of a stack", "", "Keys of `Pulumi.<stack>.yaml`, after `gpushare:`."]
    for title, kind in SECTIONS.items():
        lines += ["", f"## {title}", "", inspect.cleandoc(kind.__doc__ or "").replace("``", "`"), ""]
        lines += ["| key | default | meaning |", "|---|---|---|"]
        texts = _docstrings(kind)
        for each in fields(kind):
            meaning = texts[each.name].replace("``", "`").replace("|", "\\|")
            lines.append(f"| `{spelled(each.name)}` | {_default(each)} | {meaning} |")
    return "\n".join(lines) + "\n"


def _docstrings(kind: type[Any]) -> dict[str, str]:
    """The docstring of each field, including fields of base classes."""
    found: dict[str, str] = {}
    for part in reversed(kind.__mro__[:-1]):
        body = ast.parse(inspect.getsource(part)).body[0].body  # type: ignore[attr-defined]
        for field, text in pairwise(body):
            if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
                found[ast.unparse(field.target)] = " ".join(ast.literal_eval(text.value).split())
    return found


def _default(each: Field[Any]) -> str:
    if each.default is MISSING and each.default_factory is MISSING:
        return "required"
    value = each.default if each.default_factory is MISSING else each.default_factory()
    if value in (None, "", ()) or is_dataclass(value):
        return ""
    plain = dict(value) if isinstance(value, Mapping) else value
    shown = plain if isinstance(plain, StrEnum) else json.dumps(plain, default=_non_empty)
    return f"`{shown}`" if plain != {} else ""


def _non_empty(value: Any) -> dict[str, Any]:
    """The fields of a record that have a value."""
    named = {spelled(each.name): getattr(value, each.name) for each in fields(value)}
    return {name: each for name, each in named.items() if each}


if __name__ == "__main__":
    main()
