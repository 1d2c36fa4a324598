"""Rendering of the last snapshot for scrapes, without reading any source.

Formats that were requested before are rendered for each new snapshot ahead of the next scrape.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from prometheus_client import Metric as Family

from gpushare.exporter.sampling import Sampler
from gpushare.exporter.series import series_of
from gpushare.exporter.snapshot import NodeSnapshot
from gpushare.monitoring.families import family
from gpushare.runtime.admin_server import encoder_of

_MOST_FORMATS: Final = 4
"""More than real scrapers request; further formats are rendered on each request."""

_Encode = Callable[[Any], bytes]


class Exposition:
    """Renders the sampler's snapshots; one older than ``stale_s`` seconds counts as empty."""

    def __init__(
        self, sampler: Sampler, node: str, stale_s: float, *, each_process: bool, dcgm_devices: bool
    ) -> None:
        self._sampler = sampler
        self._nothing = NodeSnapshot(node)
        self._stale_s = stale_s
        self._each_process = each_process
        self._dcgm_devices = dcgm_devices
        self._taken: NodeSnapshot | None = None
        self._families: Sequence[Family] = ()
        self._pages: dict[str, tuple[_Encode, bytes]] = {}

    def collect(self) -> Iterator[Family]:
        """Return all families of the current snapshot, for the encoders."""
        return iter(self._families)

    def __call__(self, accept: str) -> tuple[bytes, str]:
        """Return the page for an Accept header, and its content type."""
        if self._taken is not self._current:
            self._take()
        encode, content_type = encoder_of(accept)
        page = self._pages.get(content_type) or (encode, encode(self))
        if len(self._pages) < _MOST_FORMATS:
            self._pages[content_type] = page
        return page[1], content_type

    def prepare(self) -> None:
        """Render the formats that were requested for the last snapshot."""
        requested = self._pages
        self._take()
        self._pages = {
            content_type: (encode, encode(self)) for content_type, (encode, _) in requested.items()
        }

    @property
    def _current(self) -> NodeSnapshot:
        fresh = self._sampler.age_s <= self._stale_s
        return (self._sampler.snapshot if fresh else None) or self._nothing

    def _take(self) -> None:
        self._taken = self._current
        series = series_of(self._taken, each_process=self._each_process, dcgm_devices=self._dcgm_devices)
        self._families = [family(each) for each in series]
        self._pages = {}
