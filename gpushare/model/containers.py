"""References to containers on a node."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ContainerRef:
    """A container: the UID of its pod and its id, which may be unknown (empty)."""

    pod_uid: str
    container_id: str = ""
