"""The alarm for what must never be: a card that is promised beyond its size."""

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
    """Look every second; tell each over-committed card once, and when it is sound again."""
    told: set[tuple[str, int]] = set()
    while True:
        now = set(overcommitted(cluster.ledger))
        for node, card in now - told:
            log.error("card_overcommitted", node=node, card=card)
            text = f"card {card} is promised beyond its size; nothing more is placed on it"
            recorder.record(node_event(node, EVENT_OVERCOMMIT, text))
        for node, card in told - now:
            log.warning("card_sound_again", node=node, card=card)
        told = now
        await asyncio.sleep(_INTERVAL_S)
