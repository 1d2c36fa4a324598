"""Whether the agent may serve the cards of its node, from what the API shows of the node. Pure."""

from gpushare.contract import RESOURCE_TIME_SLICED_GPU, RESOURCE_WHOLE_GPU
from gpushare.model.facts import NodeFacts
from gpushare.model.modes import mode_of


def serving(facts: NodeFacts) -> str | None:
    """Why the cards may not be served now, None where they may.

    Two plugins would give the same card out twice, so ours waits until the other one offers nothing.
    """
    _, closed = mode_of(facts.labels)
    if closed:
        return closed
    for resource in (RESOURCE_WHOLE_GPU, RESOURCE_TIME_SLICED_GPU):
        others = facts.allocatable.get(resource, 0)
        if others > 0:
            return (
                f"another device plugin still offers {others} of {resource} on this node; "
                "stop it there (gpushare node-mode evict, where it is a static pod)"
            )
    return None
