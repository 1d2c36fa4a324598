"""Samples of the metrics page of a daemon."""

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from testbed.control_plane.api import read_text


async def samples(url: str, name: str, **labels: str) -> list[Sample]:
    """The samples of that name with these labels; ``url`` is the admin server."""
    families = text_string_to_metric_families(await read_text(f"{url}/metrics"))
    found = (each for family in families for each in family.samples if each.name == name)
    return [each for each in found if labels.items() <= each.labels.items()]


async def total(url: str, name: str, **labels: str) -> float:
    """The sum of these samples; 0 if there are none."""
    return sum(each.value for each in await samples(url, name, **labels))
