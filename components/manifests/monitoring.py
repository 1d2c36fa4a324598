"""What shows the use of the cards, service by service."""

from components.config import Monitoring
from components.manifests import exporter
from components.manifests.parts import Object


def objects(settings: Monitoring) -> list[Object]:
    """Everything that monitoring needs in that cluster."""
    return exporter.objects(settings.exporter)
