"""Default images of the components. Pure.

What does not belong here: reading the file of images (``components.stack``), the format of images
(``components.forms``).
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, TypeVar

from components.config import (
    ClusterSettings,
    DevicePlugin,
    Exporter,
    Extender,
    Installer,
    Isolation,
    MetricsApi,
    Monitoring,
    Mps,
)
from gpushare.errors import ConfigError

EXTENDER: Final = "extender"
DEVICE_PLUGIN: Final = "device-plugin"
CLI: Final = "cli"
EXPORTER: Final = "exporter"
ISOLATION: Final = "isolation"
METRICS_API: Final = "metrics-api"

S = TypeVar("S", bound=ClusterSettings)
P = TypeVar("P", Extender, DevicePlugin, Installer, Isolation, Mps, Exporter, MetricsApi)


def with_images(settings: S) -> S:
    """The settings with an image for every component. Raises ConfigError if one has none."""
    images, installer, monitoring = settings.images, settings.installer, settings.monitoring
    isolation, mps = settings.isolation, settings.mps
    return replace(
        settings,
        extender=_filled("extender", settings.extender, images, EXTENDER),
        device_plugins=tuple(
            _filled(f"devicePlugins[{index}]", plugin, images, DEVICE_PLUGIN)
            for index, plugin in enumerate(settings.device_plugins)
        ),
        installer=_filled("installer", installer, images, CLI) if installer else None,
        isolation=_filled("isolation", isolation, images, ISOLATION) if isolation else None,
        mps=_filled("mps", mps, images, DEVICE_PLUGIN) if mps else None,
        monitoring=_monitoring(monitoring, images) if monitoring else None,
    )


def _monitoring(monitoring: Monitoring, images: Mapping[str, str]) -> Monitoring:
    api = monitoring.metrics_api
    return replace(
        monitoring,
        exporter=_filled("monitoring.exporter", monitoring.exporter, images, EXPORTER),
        metrics_api=_filled("monitoring.metricsApi", api, images, METRICS_API) if api else None,
    )


def _filled(where: str, part: P, images: Mapping[str, str], name: str) -> P:
    if part.image:
        return part
    if name not in images:
        raise ConfigError(f"{where}.image: missing; set it here, or {name!r} in images")
    return replace(part, image=images[name])
