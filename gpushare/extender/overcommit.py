"""The alarm for over-committed GPUs, which must never exist."""

import asyncio
from collections.abc import Generator
from typing import Final

import structlog

from gpushare.contract import EVENT_OVERCOMMIT
from gpushare.extender.cluster import ClusterState
from gpushare.ports import node_event
from gpushare.runtime.events import EventRecorder
from gpushare.scheduling.ledger import Ledger, overcommitted

log = structlog.get_logger()

_INTERVAL_S: Final = 1.0


async def watch_overcommit(cluster: ClusterState, recorder: EventRecorder) -> None:
    """Check every second; report each over-committed GPU once, and its recovery once."""
    reported: set[tuple[str, int]] = set()
    while True:
        reported = await cluster.slices.run(_report_steps(cluster.ledger, reported, recorder))
        await asyncio.sleep(_INTERVAL_S)


def _report_steps(
    ledger: Ledger, reported: set[tuple[str, int]], recorder: EventRecorder
) -> Generator[None, None, set[tuple[str, int]]]:
    """Report changes; returns the GPUs that are over-committed now. Yields after each report.

    With a lost key of the seals, there may be thousands of them.
    """
    now = set(overcommitted(ledger))
    for node, card in now - reported:
        log.error("card_overcommitted", node=node, card=card)
        text = f"GPU {card} is over-committed; no more pods are placed on it"
        recorder.record(node_event(node, EVENT_OVERCOMMIT, text))
        yield
    for node, card in reported - now:
        log.warning("card_no_longer_overcommitted", node=node, card=card)
        yield
    return now
