"""Reference pages generated from code: names, metrics, rules, commands and flags, configuration of a stack.

``make generate`` writes them, and a test compares the committed pages with them.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from copy import copy
from functools import partial
from pathlib import Path

import click

from components import config
from components.config_extender import Exposure, Extender
from components.config_monitoring import Board, Exporter, MetricsApi, Prometheus
from components.manifests import board as board_manifests
from components.manifests import certificates as certificates_manifests
from components.manifests import device_plugin as agent_manifests
from components.manifests import exporter as exporter_manifests
from components.manifests import extender as extender_manifests
from components.manifests import installer as installer_manifests
from components.manifests import metrics_api as metrics_api_manifests
from components.manifests import prometheus as prometheus_manifests
from components.manifests import viewers as viewers_manifests
from components.manifests.parts import Object
from docs import compatibility_page, configuration_page, health_page, metrics_page, names
from gpushare.__main__ import command as program
from gpushare.cli.main import TOOLS, plugin
from gpushare.deviceplugin.main import command as device_plugin
from gpushare.exporter.main import command as exporter
from gpushare.extender.main import command as extender
from gpushare.kubescheduler.config import KubernetesVersion
from gpushare.metricsapi.main import command as metrics_api
from gpushare.model import conflicts
from gpushare.monitoring.alerts import ALERTS
from gpushare.monitoring.rules import RULES

REFERENCE = Path(__file__).parent / "reference"
DAEMONS: Mapping[str, click.Command] = {
    "extender": extender,
    "device-plugin": device_plugin,
    "exporter": exporter,
    "metrics-api": metrics_api,
}
"""Commands whose flags are in a table, because each has a variable too."""
_KINDS = {"integer": "integer", "float": "number", "boolean": "`true`, `false`"}
"""Names of types that differ from those of click."""
WIDTH = 100
"""Columns of a help text."""
VERSION = KubernetesVersion(1, 33)
STACK = Extender(exposure=Exposure.NODE_PORT, certificates_image="none")
ROLES: Mapping[str, list[Object]] = {
    "Extender": extender_manifests.objects(STACK, VERSION),
    "Node agent (with `queryKubelet` and `startupTaint`)": agent_manifests.shared(
        VERSION, query_kubelet=True, startup_taint=True
    ),
    "Exporter": exporter_manifests.objects(Exporter()),
    "Prometheus (`monitoring.prometheus`)": prometheus_manifests.objects(Prometheus(), VERSION, {}),
    "Metrics API": metrics_api_manifests.objects(MetricsApi(tls_secret="own"), VERSION),  # noqa: S106 - a name
    "Certificate of the metrics API": metrics_api_manifests.certificate_rights(MetricsApi()),
    "Board (`monitoring.board`)": board_manifests.objects(Board(tls_secret=""), VERSION),
    "Installer": installer_manifests.objects(config.Installer(), STACK, VERSION),
    "Viewers (groups of users in `monitoring.viewers`)": viewers_manifests.objects(["viewers"]),
    "Certificates": certificates_manifests.objects(STACK, VERSION),
}


_PLACES: Mapping[str, str] = {"ClusterRole": "cluster", "Role": "`kube-system`"}


def rights() -> str:
    """Every right of every service account."""
    lines = [
        "# Rights",
        "",
        "The rights of each service account in the API server. If a service lacks a right, it reports the",
        "name of the right. Services that are not listed have no account. The metrics API and the scheduler",
        "beside the extender also have roles of Kubernetes.",
        "",
        "| account | resources | verbs | where |",
        "|---|---|---|---|",
    ]
    for service, objects in ROLES.items():
        for each in objects:
            if metrics_api_manifests.AGGREGATED in each["metadata"].get("labels", {}):
                holder, place = "Users with `view`, `edit` or `admin`", "their namespaces"
            else:
                holder, place = service, _PLACES.get(each["kind"], "")
            lines += [f"| {holder} | {_right(place, rule)} |" for rule in each.get("rules", ())]
    return "\n".join(lines) + "\n"


def _right(place: str, rule: Object) -> str:
    resources = ", ".join(f"`{each}`" for each in rule["resources"])
    named = ", ".join(f"`{each}`" for each in rule.get("resourceNames", ()))
    return " | ".join([resources, ", ".join(rule["verbs"]), f"{place}, only {named}" if named else place])


def rules() -> str:
    """Every recording rule and every alert."""
    lines = [
        "# Rules and alerts",
        "",
        "## Recording rules",
        "",
        "| series | meaning and query |",
        "|---|---|",
    ]
    lines += [f"| `{rule}` | {rule.help}<br>`{_on_one_line(rule.expr)}` |" for rule in RULES]
    lines += ["", "## Alerts", "", "| alert | query | severity | after |", "|---|---|---|---|"]
    for alert in ALERTS:
        link = f"[{alert.name}](../how-to/runbooks.md#{alert.name.lower()})"
        lines.append(f"| {link} | `{_on_one_line(alert.expr)}` | {alert.severity} | {alert.lasts} |")
    return "\n".join(lines) + "\n"


def _on_one_line(query: str) -> str:
    """A query in a cell of a table."""
    return " ".join(query.split()).replace("|", "\\|")


def declared_conflicts() -> str:
    """Every rule about what containers declare."""
    lines = [
        "# Conflicts with a share",
        "",
        "A container may not have these declarations, neither from its manifest nor from an admission",
        "webhook. The node agent rejects it. The event `GPUShareRefused` and the status of the pod have",
        "effect and remedy; the metrics have the reason. A path includes all paths below it. See [What",
        "containers must not declare](../concepts/isolation.md#what-containers-must-not-declare).",
        "",
        "| reason | the container has | which | remedy | rejected on |",
        "|---|---|---|---|---|",
    ]
    for rule in conflicts.RULES:
        cells = (f"`{rule.reason}`", rule.declaration, rule.effect, rule.remedy, rule.where)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def flags() -> str:
    """Every flag of each daemon, with its variable."""
    lines = [
        "# Flags of the services",
        "",
        "Each flag has a variable of the environment, except where none is shown. The flag wins over its",
        "variable. A stack and the chart set both for you: [the configuration](configuration.md).",
    ]
    for name, command in DAEMONS.items():
        lines += ["", f"## gpushare {name}", ""]
        lines += ["| flag | meaning | values | default |", "|---|---|---|---|"]
        options = [each for each in command.params if isinstance(each, click.Option) and not each.hidden]
        lines += map(_flag, options)
    return "\n".join(lines) + "\n"


def _flag(option: click.Option) -> str:
    """A row: the flag above its variable, the meaning, the values, the default."""
    flag = f"`{max(option.opts, key=len)}`" + (f"<br>`{option.envvar}`" if option.envvar else "")
    default, meaning = _explained(option)
    return f"| {flag} | {meaning} | {_values(option)} | {default} |"


def commands(name: str, group: click.Group, without: Collection[str] = ()) -> str:
    """The help of every command of a program, except those that have another page."""
    lines = [
        f"# {name}",
        "",
        "This page shows the help of each command, with its defaults.",
        "",
        *_helps(name, group, without),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _helps(name: str, group: click.Group, without: Collection[str] = ()) -> Iterator[str]:
    context = click.Context(group, info_name=name)
    for each in group.list_commands(context):
        if each in without:
            continue
        command = group.get_command(context, each)
        assert command is not None  # noqa: S101 - a listed command exists
        # A command keeps the help option of its first context, which may be another one.
        shown = copy(command)
        shown.add_help_option = False
        usage = click.Context(shown, info_name=f"{name} {each}", terminal_width=WIDTH, show_default=True)
        yield from (f"## {name} {each}", "", "```text", shown.get_help(usage), "```", "")
        if isinstance(command, click.Group):
            yield from _helps(f"{name} {each}", command)


def _values(option: click.Option) -> str:
    """What a flag accepts."""
    kind = option.type
    if option.is_flag:
        return f"no value, or `{option.secondary_opts[0]}`" if option.secondary_opts else "no value"
    if isinstance(kind, click.Choice):
        return ", ".join(f"`{each}`" for each in kind.choices)
    if isinstance(kind, click.IntRange | click.FloatRange):
        return _range(kind)
    return _KINDS.get(kind.name, kind.name)


def _range(kind: click.IntRange | click.FloatRange) -> str:
    if kind.min_open:
        return f"more than {kind.min:g}"
    return f"{kind.min:g} to {kind.max:g}" if kind.max else f"{kind.min:g} or more"


def _explained(option: click.Option) -> tuple[str, str]:
    """The default of a flag, which may be stated in its help, and its meaning."""
    meaning, _, stated = (option.help or "").partition("  [default: ")
    if stated:
        return stated.removesuffix("]"), meaning
    if option.is_flag or isinstance(option.default, bool):
        return "on" if option.default is True else "off", meaning
    if isinstance(option.default, tuple):
        return ", ".join(map(str, option.default)), meaning
    return str(option.default) if isinstance(option.default, str | int | float | Path) else "", meaning


PAGES: Mapping[str, Callable[[], str]] = {
    "configuration.md": configuration_page.page,
    "labels.md": names.page,
    "metrics.md": metrics_page.page,
    "rules.md": rules,
    "gpu-health.md": health_page.page,
    "rights.md": rights,
    "compatibility.md": compatibility_page.page,
    "conflicts.md": declared_conflicts,
    "services.md": flags,
    "kubectl-gpushare.md": partial(commands, "kubectl gpushare", plugin),
    "gpushare.md": partial(commands, "gpushare", program, without={*TOOLS, *DAEMONS}),
}
"""What writes each page."""


def main() -> None:
    """Write all pages."""
    for name, text in PAGES.items():
        (REFERENCE / name).write_text(text())


if __name__ == "__main__":
    main()
