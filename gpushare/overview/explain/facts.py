"""What is known about a pod and the cluster at one moment. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpushare.model.objects import Pod
from gpushare.overview.objects import ClusterNode, ClusterPod
from gpushare.scheduling.book import Book


@dataclass(frozen=True, slots=True)
class PodFacts:
    """The pod and the cluster. ``notes`` are limits of what could be read.

    ``books`` is None if nodes or pods may not be listed.
    """

    pod: Pod
    details: ClusterPod
    books: Mapping[str, Book] | None = field(default_factory=dict)
    nodes: Mapping[str, ClusterNode] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
