"""Grafana dashboards, one module each, with their panels and queries.

The parts of a dashboard are in ``gpushare.monitoring.panels``, recording rules in
``gpushare.monitoring.rules``. Every query is of ``$cluster``, which also matches series without that label.
With its default selection, no panel returns a series for each GPU, node or pod of a large cluster.
"""

from typing import Final

from gpushare.monitoring.dashboards.app import APP
from gpushare.monitoring.dashboards.cluster import CLUSTER
from gpushare.monitoring.dashboards.node import NODE
from gpushare.monitoring.dashboards.scheduler import SCHEDULER
from gpushare.monitoring.dashboards.tenants import TENANTS

PAGES: Final = (APP, NODE, CLUSTER, TENANTS, SCHEDULER)
