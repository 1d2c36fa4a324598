"""Values of labels: how cards and containers are named, in the sources' order and in ours."""

from gpushare.exporter.allocations import ContainerName
from gpushare.model.readings import CardReading


def dcgm_card_labels(node: str, card: CardReading) -> tuple[str, ...]:
    """A card by the sources' labels."""
    return node, card.uuid, str(card.index), _device(card), card.model


def own_card_labels(node: str, card: CardReading) -> tuple[str, ...]:
    """A card by ours."""
    return node, str(card.index), card.uuid


def dcgm_container_labels(node: str, card: CardReading, container: ContainerName) -> tuple[str, ...]:
    """A container on a card by the sources' labels."""
    return node, *container_labels(container), *dcgm_card_labels(node, card)[1:]


def own_container_labels(node: str, card: CardReading, container: ContainerName) -> tuple[str, ...]:
    """A container on a card by ours."""
    return node, *container_labels(container), *own_card_labels(node, card)[1:]


def container_labels(container: ContainerName) -> tuple[str, ...]:
    """A container."""
    return container.namespace, container.pod, container.container


def _device(card: CardReading) -> str:
    """The name of the card's device in ``/dev``."""
    return f"nvidia{card.index if card.minor is None else card.minor}"
