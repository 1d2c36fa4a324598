"""Metrics that are made of others."""

from typing import Final

from gpushare.monitoring.catalogue.metric import Metric

DCGM_GPU_MEM_USED_RATIO: Final = Metric(
    "DCGM_CUSTOM_PROCESS_GPU_MEM_USED_RATIO",
    "gauge",
    "Part of its memory of cards that a pod uses. Nobody exports it: the metrics API and the rules of "
    "prometheus-adapter make it of DCGM_CUSTOM_PROCESS_MEM_USED and DCGM_CUSTOM_CONTAINER_MEM_ALLOCATED.",
    ("NamespaceName", "PodName"),
)
