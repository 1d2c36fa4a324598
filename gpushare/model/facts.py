"""What the API server shows of the agent's own node: metadata and the resources that matter here."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gpushare.contract import (
    RESOURCE_CORE,
    RESOURCE_COUNT,
    RESOURCE_MEM,
    RESOURCE_TIME_SLICED_GPU,
    RESOURCE_WHOLE_GPU,
)

RESOURCES: Final = frozenset(
    {RESOURCE_MEM, RESOURCE_COUNT, RESOURCE_CORE, RESOURCE_WHOLE_GPU, RESOURCE_TIME_SLICED_GPU}
)
"""What ``capacity`` and ``allocatable`` are cut down to."""


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """A node's object, trimmed. A resource that the node does not show is absent, not 0."""

    name: str
    uid: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    capacity: Mapping[str, int] = field(default_factory=dict)
    allocatable: Mapping[str, int] = field(default_factory=dict)
