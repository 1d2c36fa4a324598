"""Every metric, once: name, kind, labels and meaning. Exporters, rules and docs read it from here.

Each daemon's metrics are in a module of their own; a metric that is in none of them does not exist.
"""
# ruff: noqa: F403 - a module's metrics are the catalogue's

from types import ModuleType
from typing import Final

from gpushare.monitoring.catalogue import (
    derived,
    device_plugin,
    exporter,
    extender,
    installer,
    metrics_api,
    mps,
    sources,
)
from gpushare.monitoring.catalogue.derived import *
from gpushare.monitoring.catalogue.device_plugin import *
from gpushare.monitoring.catalogue.exporter import *
from gpushare.monitoring.catalogue.extender import *
from gpushare.monitoring.catalogue.installer import *
from gpushare.monitoring.catalogue.metric import Kind as Kind
from gpushare.monitoring.catalogue.metric import Metric as Metric
from gpushare.monitoring.catalogue.metrics_api import *
from gpushare.monitoring.catalogue.mps import *
from gpushare.monitoring.catalogue.sources import *


def _metrics(*modules: ModuleType) -> tuple[Metric, ...]:
    """All metrics that these modules declare, in their order."""
    return tuple(each for module in modules for each in vars(module).values() if isinstance(each, Metric))


EXTENDER: Final = _metrics(extender)
DEVICE_PLUGIN: Final = _metrics(device_plugin)
EXPORTER: Final = _metrics(sources, exporter)
METRICS_API: Final = _metrics(metrics_api)
ISOLATION: Final = _metrics(installer)
MPS: Final = _metrics(mps)
DERIVED: Final = _metrics(derived)

ALL: Final = (*EXTENDER, *DEVICE_PLUGIN, *EXPORTER, *METRICS_API, *ISOLATION, *MPS, *DERIVED)
