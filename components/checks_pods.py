"""Checks of what pods have together: taints and tolerations, labels. Part of ``components.checks``."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from components.config import ClusterSettings, NodePool
from components.config_pods import Effect, Operator, Toleration
from components.formats import check_key, taint_from
from gpushare.errors import ConfigError

_OURS: Final = ("app", "component", "name")
"""Labels by which Services and DaemonSets select their pods."""


def check_pods(settings: ClusterSettings) -> None:
    """Checks the pods of all parts. Raises ConfigError for the first violation."""
    for index, pool in enumerate(settings.node_pools):
        _check_taints(f"nodePools[{index}]", pool, settings)
    _check_marks(settings)


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
    for key in settings.annotations:
        check_key("annotations", key)
    for key in _OURS:
        if key in settings.labels:
            raise ConfigError(f"labels.{key}: reserved, Services select pods by it; use another key")
