"""A page of metrics, read back: what a scrape of one of our daemons says.

Neither the fetching, which is an adapter's or the caller's, nor what is made of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

from gpushare.errors import InvalidRequest

Page = Mapping[str, list["Sample"]]
"""Samples by the name of their metric, as the catalogue has it."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One series at one moment."""

    labels: Mapping[str, str]
    value: float


def read_page(text: str) -> Page:
    """The samples of a page in Prometheus' text format; those of histograms are left out.

    Raises InvalidRequest where it is something else.
    """
    try:
        families = list(text_string_to_metric_families(text))
    except (ValueError, KeyError, IndexError) as error:
        raise InvalidRequest(f"no page of metrics: {error}") from error
    found: dict[str, list[Sample]] = {}
    for family in families:
        # Series of a metric whose type is not said come as so many families of one name.
        if family.type not in ("histogram", "summary"):
            found.setdefault(family.name, []).extend(
                Sample(each.labels, each.value)
                for each in family.samples
                if each.name in (family.name, f"{family.name}_total")
            )
    return found
