"""Reservations of the members of a pod group from the first bind of one of them until their own binds."""

import asyncio
from collections.abc import Callable
from typing import Final

from gpushare.extender.cluster import ClusterState
from gpushare.extender.decision import BindResult
from gpushare.model.objects import Pod
from gpushare.scheduling.events import Released

HOLD_S: Final = 30.0
"""How long a member has a reservation without a bind of its own."""
_NO_PLAN: Final = (
    "the places of pod group {pod.group} of pod {pod.full_name} are not known here: another replica planned "
    "them, or they are too old; the scheduler tries the group again"
)
_TAKEN: Final = (
    "node {node} cannot take pod {pod.full_name}: the pods of its group {pod.group} do not all fit any more, "
    "so none is bound"
)


class GroupHolds:
    """Takes the plans of groups. ``binds`` returns whether a bind of a pod is under way or unclear."""

    def __init__(self, cluster: ClusterState, binds: Callable[[str], bool]) -> None:
        self._cluster = cluster
        self._binds = binds
        self._until: dict[str, float] = {}

    def reserve(self, pod: Pod, node: str) -> BindResult | None:
        """Reserve the places of the whole group, or return why its member may not be bound.

        Without a plan nothing is reserved: members of a group that runs already may be placed alone.
        """
        plans, ledger = self._cluster.group_plans, self._cluster.ledger
        reserved = plans.take(pod, node, ledger)
        if reserved is None:
            return BindResult(_TAKEN.format(pod=pod, node=node), "no_fit")
        if reserved:
            self._cluster.apply(*reserved)
            self._hold([each.pod.uid for each in reserved])
        elif not plans.begun(pod, ledger):
            return BindResult(_NO_PLAN.format(pod=pod), "no_plan")
        return None

    def _hold(self, uids: list[str]) -> None:
        loop = asyncio.get_running_loop()
        self._until |= dict.fromkeys(uids, loop.time() + HOLD_S)
        loop.call_later(HOLD_S, self._release, uids)

    def _release(self, uids: list[str]) -> None:
        now = asyncio.get_running_loop().time()
        # A member that was reserved again since has a later end.
        for uid in [uid for uid in uids if self._until.get(uid, now + 1) <= now]:
            del self._until[uid]
            if not self._binds(uid):
                self._cluster.apply(Released(uid))
