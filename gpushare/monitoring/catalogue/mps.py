"""Metrics of the MPS daemon."""

from typing import Final

from gpushare.monitoring.catalogue.metric import Metric

MPS_UP: Final = Metric(
    "gpushare_mps_up", "gauge", "1 while the MPS control daemon of the card answers, else 0.", ("uuid",)
)
MPS_STARTS: Final = Metric(
    "gpushare_mps_starts",
    "counter",
    "How often the MPS control daemon of the card was started, the first time included.",
    ("uuid",),
)
MPS_CLIENTS: Final = Metric(
    "gpushare_mps_clients", "gauge", "Processes that the MPS servers of the card serve.", ("uuid",)
)
MPS_EXCLUSIVE: Final = Metric(
    "gpushare_mps_exclusive",
    "gauge",
    "1 where the card's compute mode leaves it to MPS alone; 0 where programs can go past MPS.",
    ("uuid",),
)
