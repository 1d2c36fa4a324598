"""Values of labels: how cards and containers are named, in the sources' order and in ours."""

from gpushare.exporter.allocations import ContainerName
from gpushare.model.readings import CardReading


def dcgm_labels(node: str, card: CardReading) -> tuple[str, ...]:
    """A card by the sources' labels."""
    return node, card.uuid, str(card.index), _device(card), card.model


def own_labels(node: str, card: CardReading) -> tuple[str, ...]:
    """A card by ours."""
    return node, str(card.index), card.uuid


def dcgm_holder(node: str, card: CardReading, holder: ContainerName) -> tuple[str, ...]:
    """A container on a card by the sources' labels."""
    return node, *names_of(holder), *dcgm_labels(node, card)[1:]


def own_holder(node: str, card: CardReading, holder: ContainerName) -> tuple[str, ...]:
    """A container on a card by ours."""
    return node, *names_of(holder), *own_labels(node, card)[1:]


def names_of(holder: ContainerName) -> tuple[str, ...]:
    """A container."""
    return holder.namespace, holder.pod, holder.container


def _device(card: CardReading) -> str:
    """The name of the card's device in ``/dev``."""
    return f"nvidia{card.index if card.minor is None else card.minor}"
