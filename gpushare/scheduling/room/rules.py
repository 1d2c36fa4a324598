"""Which pods may be evicted to make room, and which of them are only moved by that. Pure."""

from typing import Final

from gpushare.model.objects import Pod

_TIED: Final = ("DaemonSet", "Node")
"""Their pods come back to the same node: a replacement would wait there, or take the room."""
_RUN_TO_COMPLETION: Final = "Job"


def may_be_evicted(pod: Pod) -> bool:
    """Whether a pod of lower priority may be evicted.

    A pod group loses its work with one member, so members stay.
    Nobody recreates a pod without a controller, so its annotation has to allow it. An annotation that forbids
    it counts for moves only: the owner of a pod of low priority must not outweigh a priority, which an
    administrator grants. A disruption budget protects pods, as it does from every eviction.
    """
    if pod.group:
        return False
    if not pod.owner:
        return pod.safe_to_evict is True
    return _kind(pod) not in _TIED


def may_be_moved(pod: Pod) -> bool:
    """Whether a pod of any priority may be evicted because it fits elsewhere.

    A pod of a Job would lose its work, and count as a failure, unless its annotation says that it is safe.
    """
    if not pod.owner or pod.group or pod.safe_to_evict is False or pod.terminating or pod.finished:
        return False
    return _kind(pod) not in _TIED and (_kind(pod) != _RUN_TO_COMPLETION or pod.safe_to_evict is True)


def _kind(pod: Pod) -> str:
    return pod.owner.partition("/")[0]
