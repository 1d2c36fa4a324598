"""Checks of what all pods have: tolerations, priorities, labels. Part of ``components.checks``."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Protocol

from components.config import ClusterSettings, Effect, NodePool, Operator, Toleration
from components.forms import check_count, check_key, check_label_value, check_labels, check_object, taint_from
from gpushare.errors import ConfigError

_OURS: Final = ("app", "component", "name")
"""Labels by which Services and DaemonSets select their pods."""


class _Workload(Protocol):
    @property
    def tolerations(self) -> tuple[Toleration, ...]: ...
    @property
    def priority_class(self) -> str: ...


class _NodeDaemon(_Workload, Protocol):
    @property
    def max_unavailable(self) -> str: ...


def check_pods(settings: ClusterSettings) -> None:
    """Checks the pods of all workloads. Raises ConfigError for the first violation."""
    for where, workload in _workloads(settings):
        for index, each in enumerate(workload.tolerations):
            _check_toleration(f"{where}.tolerations[{index}]", each)
        check_object(f"{where}.priorityClass", workload.priority_class)
    for where, daemon in _rolling(settings):
        check_count(f"{where}.maxUnavailable", daemon.max_unavailable)
    for index, pool in enumerate(settings.node_pools):
        _check_taints(f"nodePools[{index}]", pool, settings)
    _check_marks(settings)


def _rolling(settings: ClusterSettings) -> Iterator[tuple[str, _NodeDaemon]]:
    """DaemonSets whose pods are replaced by an update, with their keys."""
    yield from ((f"devicePlugins[{index}]", each) for index, each in enumerate(settings.device_plugins))
    if settings.isolation:
        yield "isolation", settings.isolation
    if settings.monitoring:
        yield "monitoring.exporter", settings.monitoring.exporter


def _workloads(settings: ClusterSettings) -> Iterator[tuple[str, _Workload]]:
    scheduler, monitoring = settings.extender.scheduler, settings.monitoring
    yield "extender", settings.extender
    if scheduler and scheduler.webhook:
        yield "extender.scheduler.webhook", scheduler.webhook
    yield from _rolling(settings)
    if settings.mps:
        yield "mps", settings.mps
    if monitoring and monitoring.metrics_api:
        yield "monitoring.metricsApi", monitoring.metrics_api
    if monitoring and monitoring.prometheus:
        yield "monitoring.prometheus", monitoring.prometheus


def _check_toleration(where: str, toleration: Toleration) -> None:
    if toleration.key:
        check_key(f"{where}.key", toleration.key)
    elif toleration.operator is Operator.EQUAL:
        raise ConfigError(f"{where}.key: missing; set it, or operator: {Operator.EXISTS} for every taint")
    check_label_value(f"{where}.value", toleration.value)
    if toleration.value and toleration.operator is Operator.EXISTS:
        raise ConfigError(
            f"{where}.value: {toleration.value!r} is not allowed with operator {Operator.EXISTS}; remove one"
        )


def _check_taints(where: str, pool: NodePool, settings: ClusterSettings) -> None:
    """Our own daemons must run on the nodes that the stack taints."""
    for text in pool.taints:
        taint = taint_from(text)
        if taint["effect"] == Effect.PREFER_NO_SCHEDULE:
            continue
        for daemon, tolerations in _daemons_on(pool.labels, settings):
            if not any(_tolerates(each, taint) for each in tolerations):
                raise ConfigError(
                    f"{daemon}.tolerations: none for the taint {text!r} of {where}, so it would not run on "
                    f"these nodes; add {{key: {taint['key']}, operator: {Operator.EXISTS}}}, or remove the "
                    "list, because the default tolerates every taint"
                )


def _daemons_on(
    labels: Mapping[str, str], settings: ClusterSettings
) -> Iterator[tuple[str, Sequence[Toleration]]]:
    """The daemons that select nodes with these labels."""
    for index, plugin in enumerate(settings.device_plugins):
        if plugin.node_selector.items() <= labels.items():
            yield f"devicePlugins[{index}]", plugin.tolerations
    exporter = settings.monitoring.exporter if settings.monitoring else None
    for name, daemon in (
        ("isolation", settings.isolation),
        ("mps", settings.mps),
        ("monitoring.exporter", exporter),
    ):
        if daemon and any(_has(labels, each) for each in daemon.node_labels):
            yield name, daemon.tolerations


def _has(labels: Mapping[str, str], text: str) -> bool:
    """Whether there is the label ``key``, or ``key=value``."""
    key, equals, value = text.partition("=")
    return labels.get(key) == value if equals else key in labels


def _tolerates(toleration: Toleration, taint: Mapping[str, str]) -> bool:
    return (
        toleration.key in ("", taint["key"])
        and toleration.effect in (None, taint["effect"])
        and (toleration.operator is Operator.EXISTS or toleration.value == taint.get("value", ""))
    )


def _check_marks(settings: ClusterSettings) -> None:
    check_labels("labels", settings.labels)
    for key in settings.annotations:
        check_key("annotations", key)
    for key in _OURS:
        if key in settings.labels:
            raise ConfigError(f"labels.{key}: reserved, Services select pods by it; use another key")
