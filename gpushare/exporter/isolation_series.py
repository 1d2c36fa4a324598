"""Series of isolation: enforced limits, and differences between library and driver. Pure."""

from collections.abc import Iterable, Iterator
from typing import Final

from gpushare.exporter.allocations import ContainerName
from gpushare.exporter.isolation_use import limit_uses, unlimited_processes
from gpushare.exporter.labels import own_card_labels, own_container_labels
from gpushare.exporter.snapshot import Snapshot
from gpushare.exporter.usage import NodeUsage, Use
from gpushare.monitoring import catalogue as names
from gpushare.monitoring.families import Series

_COUNTED: Final = (
    (names.CONTAINER_COUNTED, "used"),
    (names.CONTAINER_PEAK, "peak"),
    (names.CONTAINER_REFUSALS, "refusals"),
)


def limits(snapshot: Snapshot, usage: NodeUsage) -> Iterator[Series]:
    """Yield the series of containers with limits; only the limit if the region is invalid."""
    node = snapshot.node_name
    shares = [(own_container_labels(node, each.card, each.container), each) for each in limit_uses(snapshot)]
    yield Series(names.CONTAINER_LIMIT, [(label, share.limit_bytes) for label, share in shares])
    for metric, field in _COUNTED:
        yield Series(metric, [(label, getattr(share.use, field)) for label, share in shares if share.use])
    driver_bytes = _driver_bytes(usage.uses)
    beyond = [
        (label, reported - share.use.used)
        for label, share in shares
        if share.use and (reported := driver_bytes.get((share.container, share.card.uuid))) is not None
    ]
    yield Series(names.CONTAINER_UNCOUNTED, [(label, max(0, each)) for label, each in beyond])
    yield Series(names.CONTAINER_UNSEEN, [(label, max(0, -each)) for label, each in beyond])
    unlimited = unlimited_processes(snapshot, [share for _, share in shares])
    cards = snapshot.readings.cards if snapshot.readings else ()
    yield Series(
        names.CARD_UNHELD,
        [(own_card_labels(node, card), unlimited[card.uuid]) for card in cards if card.uuid in unlimited],
    )


def _driver_bytes(uses: Iterable[Use]) -> dict[tuple[ContainerName, str], int | None]:
    """Return the driver's bytes by container and GPU; None if unknown for one of its processes."""
    driver_bytes: dict[tuple[ContainerName, str], int | None] = {}
    for use in uses:
        key = use.container, use.card.uuid
        before = driver_bytes.get(key, 0)
        driver_bytes[key] = None if before is None or use.used_bytes is None else before + use.used_bytes
    return driver_bytes
