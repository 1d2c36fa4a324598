"""The page of metrics: each with its unit and an example of a series, under the daemon that serves it.

What belongs here: units, and examples of values and labels. ``generate`` writes the page, and a test checks
that each label has an example.
"""

import re
from collections.abc import Mapping
from typing import Final

from gpushare import contract
from gpushare.monitoring import catalogue
from gpushare.monitoring.catalogue import Metric

METRICS: Final[Mapping[str, tuple[int | None, list[Metric]]]] = {
    "Every daemon": (None, catalogue.COMMON),
    "Extender": (contract.EXTENDER_OPS_PORT, catalogue.EXTENDER),
    "Node agent": (contract.AGENT_OPS_PORT, catalogue.DEVICE_PLUGIN),
    "Exporter": (contract.EXPORTER_PORT, catalogue.EXPORTER),
    "Metrics API": (contract.METRICS_API_OPS_PORT, catalogue.METRICS_API),
    "Webhook that names the scheduler": (contract.SCHEDULER_NAMING_OPS_PORT, catalogue.SCHEDULER_NAMING),
    "Board in a cluster": (contract.BOARD_OPS_PORT, catalogue.BOARD),
    "Library installer": (contract.ISOLATION_INSTALLER_PORT, catalogue.ISOLATION),
    "MPS daemon": (contract.MPS_PORT, catalogue.MPS),
    "Computed": (None, catalogue.DERIVED),
}
"""The daemon that exports the metrics, and its port."""
_UUID: Final = "GPU-5c1f…"
LABELS: Final[Mapping[str, str]] = {
    "scores": "prepared",
    "acc_id": _UUID,
    "card": "0",
    "cause": "moved",
    "certificate": "server",
    "change": "grown",
    "code": "200",
    "container": "notebook",
    "ContainerName": "notebook",
    "cuda": "13.0",
    "device": "nvidia0",
    "driver": "580.95.05",
    "gpu": "0",
    "job": "api_writer",
    "kind": "corrected",
    "make": "nvidia",
    "model": "Tesla T4",
    "modelName": "Tesla T4",
    "namespace": "default",
    "NamespaceName": "default",
    "node": "gpu-1",
    "NodeName": "gpu-1",
    "outcome": "evicted",
    "pci": "00000000:00:07.0",
    "pod": "tf-notebook-0",
    "PodName": "tf-notebook-0",
    "reason": "bound",
    "resource": "pods",
    "result": "ok",
    "right": "leases",
    "rule": "needs_recovery",
    "source": "nvml",
    "state": "bound",
    "uuid": _UUID,
    "UUID": _UUID,
    "verb": "filter",
    "version": "0.1.0",
    "xid": "79",
}
"""An example of each label; those of single metrics are in ``_OTHERS``."""
_OTHERS: Final[Mapping[tuple[str, str], str]] = {
    ("gpushare_device_plugin_allocations", "resource"): contract.RESOURCE_MEM,
    ("gpushare_device_plugin_allocate_duration_seconds", "resource"): contract.RESOURCE_MEM,
    ("gpushare_device_plugin_registered", "resource"): contract.RESOURCE_MEM,
    ("gpushare_device_plugin_registrations", "resource"): contract.RESOURCE_MEM,
    ("gpushare_device_plugin_api_writes", "kind"): "events",
    ("gpushare_device_plugin_degraded_mode", "right"): "isolation",
    ("gpushare_metrics_api_requests", "kind"): "pods",
    ("gpushare_metrics_api_request_duration_seconds", "kind"): "pods",
}
_UNITS: Final = (
    ("_bytes_per_second", "bytes per second"),
    ("_timestamp_seconds", "seconds since 1970"),
    ("_bytes", "bytes"),
    ("_seconds", "seconds"),
    ("_ratio", "0 to 1"),
    ("_RATIO", "0 to 1"),
    ("_celsius", "°C"),
    ("_watts", "W"),
    ("_joules", "J"),
    ("_hertz", "Hz"),
    ("_units", "units"),
    ("_info", "1"),
    ("_up", "0 or 1"),
)
_STATED: Final = re.compile(r"\bin (percent|MiB|°C|W|mJ|MHz|KB/s)\b")
"""The unit in the help text, where the name has none."""
_YES_OR_NO: Final = re.compile(r"1 (?:once|while|on|if|for each)\b")
_VALUES: Final[Mapping[str, str]] = {
    "bytes per second": "1.2e+08",
    "seconds since 1970": "1.7641e+09",
    "bytes": "4.517e+09",
    "seconds": "0.004",
    "0 to 1": "0.23",
    "°C": "41",
    "W": "55.5",
    "J": "1.8e+06",
    "Hz": "1.59e+09",
    "units": "14",
    "percent": "23",
    "MiB": "4308",
    "mJ": "1.8e+09",
    "MHz": "1590",
    "KB/s": "120000",
    "number": "3",
}
_HEAD: Final = """\
# Metrics

Each daemon exports its metrics at `/metrics` of its port. All metrics are always on.

- A counter or histogram starts at 0 with its daemon, if its meaning does not say otherwise; with labels, a
  series appears with its first event.
- A gauge whose value is not known has no series, not the value 0: the driver does not report it, the GPU does
  not have it, or its source does not respond (`gpushare_exporter_source_up`).
- A container with a GPU that uses nothing has the value 0.
"""


def page() -> str:
    """The page, in Markdown."""
    lines = [_HEAD.rstrip()]
    for title, (port, group) in METRICS.items():
        lines += ["", f"## {title}", *(["", f"Default port: {port}."] if port else [])]
        lines += ["", "| name | meaning | kind | unit |", "|---|---|---|---|"]
        lines += map(_row, group)
    return "\n".join(lines) + "\n"


def _row(metric: Metric) -> str:
    """The example stands below the meaning."""
    return f"| `{metric}` | {metric.help}<br>`{example(metric)}` | {metric.kind} | {unit(metric)} |"


def unit(metric: Metric) -> str:
    """Return the unit or the values of a metric, from its name, else from its help text."""
    if found := next((text for suffix, text in _UNITS if metric.name.endswith(suffix)), None):
        return found
    if stated := _STATED.search(metric.help):
        return stated[1]
    if metric.help.startswith("Fraction"):
        return "0 to 1"
    return "0 or 1" if _YES_OR_NO.match(metric.help) else "number"


def example(metric: Metric) -> str:
    """Return one line of the page of the daemon."""
    labels = {label: _label(metric, label) for label in metric.labels}
    name = f"{metric}_bucket" if metric.kind == "histogram" else str(metric)
    if metric.kind == "histogram":
        labels["le"] = "0.005"
    text = ",".join(f'{key}="{value}"' for key, value in labels.items())
    return f"{name}{{{text}}} {_value(metric)}" if text else f"{name} {_value(metric)}"


def _label(metric: Metric, label: str) -> str:
    """That of the metric, the first one that its help text lists, or the usual one."""
    listed = re.search(rf"\b{label} \((\w+)[,)]", metric.help)
    return _OTHERS.get((metric.name, label)) or (listed[1] if listed else LABELS[label])


def _value(metric: Metric) -> str:
    if metric.kind == "histogram":
        return "12"
    if metric.help.endswith("Must be 0."):
        return "0"
    return _VALUES.get(unit(metric), "1")
