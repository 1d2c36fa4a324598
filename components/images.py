"""The image of each component: its own, or that of ``images``. Pure.

What does not belong here: reading the file of images (``components.stack``), the format of images
(``components.formats``).
"""

from dataclasses import replace
from typing import Final, TypeVar

from components.config import ClusterSettings, DevicePlugin, Installer, Isolation, Mps
from components.config_extender import Exposure, Extender, Scheduler
from components.config_monitoring import Board, Exporter, MetricsApi, Monitoring, Prometheus
from components.formats import check_image
from components.manifests.certificates import makes_certificates
from components.manifests.metrics_api import makes_certificate
from gpushare.errors import ConfigError

EXTENDER: Final = "extender"
DEVICE_PLUGIN: Final = "device-plugin"
CLI: Final = "cli"
EXPORTER: Final = "exporter"
ISOLATION: Final = "isolation"
METRICS_API: Final = "metrics-api"
PROMETHEUS: Final = "prometheus"
"""Not of this project."""
_KUBE_SCHEDULER: Final = "registry.k8s.io/kube-scheduler"
"""Tags of Kubernetes' registry are never moved. Every minor version has a release 0, also where a
provider has patches of its own."""

S = TypeVar("S", bound=ClusterSettings)
P = TypeVar("P", Extender, DevicePlugin, Installer, Isolation, Mps, Exporter, MetricsApi, Board, Prometheus)


def with_images(settings: S) -> S:
    """The settings with an image for every component.

    Raises ConfigError if a component has none, or if an image is not pinned.
    """
    extender, installer, monitoring = settings.extender, settings.installer, settings.monitoring
    isolation, mps = settings.isolation, settings.mps
    for name, image in settings.images.items():
        check_image(f"images.{name}", image, tags=settings.allow_tags)
    return replace(
        settings,
        extender=_scheduled(
            _certified(_filled("extender", extender, settings, EXTENDER), settings), settings
        ),
        device_plugins=tuple(
            _filled(f"devicePlugins[{index}]", plugin, settings, DEVICE_PLUGIN)
            for index, plugin in enumerate(settings.device_plugins)
        ),
        installer=_filled("installer", installer, settings, CLI) if installer else None,
        isolation=_filled("isolation", isolation, settings, ISOLATION) if isolation else None,
        mps=_filled("mps", mps, settings, DEVICE_PLUGIN) if mps else None,
        monitoring=_monitoring(monitoring, settings) if monitoring else None,
    )


def _certified(extender: Extender, settings: ClusterSettings) -> Extender:
    """With the image of the Job that makes certificates, if there is one."""
    if not makes_certificates(extender):
        return extender
    image = _image("extender.certificatesImage", extender.certificates_image, settings, CLI)
    return replace(extender, certificates_image=image)


def _scheduled(extender: Extender, settings: ClusterSettings) -> Extender:
    """With the kube-scheduler of a sidecar, and its image."""
    is_sidecar = extender.exposure is Exposure.SIDECAR
    scheduler = extender.scheduler or (Scheduler() if is_sidecar else None)
    if scheduler is None:
        return extender
    if scheduler.image:
        check_image("extender.scheduler.image", scheduler.image, tags=settings.allow_tags)
    image = scheduler.image or f"{_KUBE_SCHEDULER}:v{settings.kubernetes_version}.0"
    return replace(extender, scheduler=replace(scheduler, image=image))


def _monitoring(monitoring: Monitoring, settings: ClusterSettings) -> Monitoring:
    api, board, prometheus = monitoring.metrics_api, monitoring.board, monitoring.prometheus
    return replace(
        monitoring,
        exporter=_filled("monitoring.exporter", monitoring.exporter, settings, EXPORTER),
        metrics_api=_metrics_api(api, settings) if api.enabled else api,
        board=_filled("monitoring.board", board, settings, CLI) if board else None,
        prometheus=_filled("monitoring.prometheus", prometheus, settings, PROMETHEUS) if prometheus else None,
    )


def _metrics_api(api: MetricsApi, settings: ClusterSettings) -> MetricsApi:
    """With its image, and the image of the Job that makes its certificate, if there is one."""
    where, filled = "monitoring.metricsApi", _filled("monitoring.metricsApi", api, settings, METRICS_API)
    if not makes_certificate(api):
        return filled
    image = _image(f"{where}.certificatesImage", api.certificates_image, settings, CLI)
    return replace(filled, certificates_image=image)


def _filled(where: str, part: P, settings: ClusterSettings, name: str) -> P:
    return replace(part, image=_image(f"{where}.image", part.image, settings, name))


def _image(where: str, own: str, settings: ClusterSettings, name: str) -> str:
    image = own or settings.images.get(name)
    if not image:
        raise ConfigError(f"{where}: missing; set it here, or {name!r} in images")
    check_image(where, image, tags=settings.allow_tags)
    return image
