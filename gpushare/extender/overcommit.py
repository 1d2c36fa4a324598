"""The alarm for over-committed GPUs, which must never exist."""

import asyncio
from typing import Final

import structlog

from gpushare.contract import EVENT_OVERCOMMIT
from gpushare.extender.cluster import Cluster
from gpushare.ports import node_event
from gpushare.runtime.events import EventRecorder
from gpushare.scheduling.ledger import overcommitted

log = structlog.get_logger()

_INTERVAL_S: Final = 1.0


async def watch_overcommit(cluster: Cluster, recorder: EventRecorder) -> None:
    """Check every second; report each over-committed GPU once, and its recovery once."""
    reported: set[tuple[str, int]] = set()
    while True:
        now = set(overcommitted(cluster.ledger))
        for node, card in now - reported:
            log.error("card_overcommitted", node=node, card=card)
            text = f"GPU {card} is over-committed; no more pods are placed on it"
            recorder.record(node_event(node, EVENT_OVERCOMMIT, text))
        for node, card in reported - now:
            log.warning("card_no_longer_overcommitted", node=node, card=card)
        reported = now
        await asyncio.sleep(_INTERVAL_S)
