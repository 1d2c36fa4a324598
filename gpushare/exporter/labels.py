"""Label values of GPUs and containers, in the order of DCGM's labels and of ours."""

from gpushare.exporter.allocations import ContainerName
from gpushare.model.readings import CardReading


def dcgm_card_labels(node: str, card: CardReading) -> tuple[str, ...]:
    """Return the DCGM labels of a GPU."""
    return node, card.uuid, str(card.index), _device(card), card.model


def own_card_labels(node: str, card: CardReading) -> tuple[str, ...]:
    """Return our labels of a GPU."""
    return node, str(card.index), card.uuid


def dcgm_container_labels(node: str, card: CardReading, container: ContainerName) -> tuple[str, ...]:
    """Return the DCGM labels of a container on a GPU."""
    return node, *container_labels(container), *dcgm_card_labels(node, card)[1:]


def own_container_labels(node: str, card: CardReading, container: ContainerName) -> tuple[str, ...]:
    """Return our labels of a container on a GPU."""
    return node, *container_labels(container), *own_card_labels(node, card)[1:]


def container_labels(container: ContainerName) -> tuple[str, ...]:
    """Return namespace, pod and container."""
    return container.namespace, container.pod, container.container


def _device(card: CardReading) -> str:
    """Return the name of the GPU's device in ``/dev``."""
    return f"nvidia{card.index if card.minor is None else card.minor}"
