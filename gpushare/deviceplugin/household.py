"""The one owner of the tenancy: takes in pods, cards and the kubelet's checkpoint, tells the publisher.

All calls come from one event loop. Between reading the tenancy and changing it nothing is awaited, so
there are no locks here; the calls of the kubelet are served one at a time by ``allocator``.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import structlog

from gpushare.adapters.kube.watch import Deleted, Upserted
from gpushare.contract import EVENT_ASSIGNED, LABEL_PLACEMENT
from gpushare.deviceplugin.decision import with_grant
from gpushare.deviceplugin.facts import wanted
from gpushare.deviceplugin.joining import Served, join, marked, retained
from gpushare.deviceplugin.lineup import Lineup
from gpushare.deviceplugin.metrics import PluginMetrics
from gpushare.deviceplugin.published import assigned_text, pod_patches
from gpushare.deviceplugin.publisher import Publisher
from gpushare.deviceplugin.tenancy import Grant, Key, Tenancy, held
from gpushare.model.facts import NodeFacts
from gpushare.model.objects import mode_of
from gpushare.model.tenants import Tenant
from gpushare.ports import pod_note

log = structlog.get_logger()

_PUBLISH_PAUSE_S: Final = 0.01

Checkpoint = Callable[[], tuple[Served, ...] | None]
"""What the kubelet's checkpoint names now; None where it cannot be read."""


class Household:
    """The pods and cards of this node.

    ``has_processes`` tells whether a pod's processes still run; None where that cannot be seen.
    """

    def __init__(
        self,
        node: str,
        grants: Iterable[Grant],
        *,
        checkpoint: Checkpoint,
        has_processes: Callable[[str], bool] | None,
        publisher: Publisher,
        metrics: PluginMetrics,
    ) -> None:
        self.tenancy = Tenancy(node, grants={grant.key: grant for grant in grants})
        self.lineup: Lineup | None = None
        self.refusal: str | None = "the node has not been read yet"
        self.synced = False
        self._checkpoint = checkpoint
        self._has_processes = has_processes
        self._publisher = publisher
        self._metrics = metrics
        self._uids: dict[str, str] = {}
        self._strangers: set[str] = set()
        self._waiting: list[asyncio.Future[None]] = []
        self._news = asyncio.Event()
        self._joined: tuple[object, object] = (None, None)

    def take_lineup(self, lineup: Lineup) -> None:
        """The cards are these from now on."""
        self.lineup = lineup
        self.tenancy = marked(replace(self.tenancy, cards=lineup.cards))
        self._announce()

    def take_node(self, facts: NodeFacts, refusal: str | None) -> None:
        """The node's labels are these; ``refusal`` is why nothing may be served on it."""
        self.refusal = refusal
        mode, _ = mode_of(facts.labels)
        self.tenancy = replace(self.tenancy, mode=mode, placement=facts.labels.get(LABEL_PLACEMENT))
        self._announce()

    def take_pods(self, batch: Iterable[Upserted[Tenant] | Deleted]) -> None:
        """Pods were added, changed or deleted. A finished pod lives here no more."""
        tenants = dict(self.tenancy.tenants)
        for change in batch:
            if isinstance(change, Deleted):
                uid = self._uids.pop(change.key, change.key)
                if uid not in self._uids.values():
                    # A static pod lives on where only one of its mirrors is gone.
                    tenants.pop(uid, None)
            elif change.value.pod.finished:
                tenants.pop(change.value.uid, None)
            else:
                self._uids[change.key] = change.value.uid
                self._strangers.discard(change.value.uid)
                tenants[change.value.uid] = change.value
        self._swap(replace(self.tenancy, tenants=tenants))

    def settle(self) -> None:
        """All pods of this node are known: whoever is not among them is gone."""
        self.synced = True
        self.refresh()
        self._swap(marked(self.tenancy))
        self.let_go()

    def take_strangers(self, found: Iterable[Tenant]) -> None:
        """Pods that the kubelet knows and the API does not show, or not yet: these and no others."""
        known = {uid: each for uid, each in self.tenancy.tenants.items() if uid not in self._strangers}
        unknown = {each.uid: each for each in found if each.uid not in known and not each.pod.finished}
        self._strangers = set(unknown)
        self._swap(replace(self.tenancy, tenants={**known, **unknown}))

    def take_grant(self, grant: Grant) -> None:
        """A decision was made."""
        self._swap(with_grant(self.tenancy, grant))

    def drop_grant(self, grant: Grant) -> None:
        """The decision could not be written down, so nobody is told of it."""
        kept = {key: each for key, each in self.tenancy.grants.items() if each is not grant}
        self._swap(replace(self.tenancy, grants=kept))

    def refresh(self) -> frozenset[Key] | None:
        """Join with the checkpoint; returns whom it names, None where it cannot be read."""
        served = self._checkpoint()
        if served is not None and not (served is self._joined[0] and self.tenancy is self._joined[1]):
            self.take_served(served)
            self._joined = served, self.tenancy
        return None if served is None else frozenset(entry.key for entry in served)

    def take_served(self, served: Sequence[Served]) -> None:
        """These containers hold these devices, whoever says so."""
        self._swap(join(self.tenancy, served))

    @property
    def leaving(self) -> frozenset[str]:
        """Pods that are gone and hold a card because processes of theirs still run."""
        gone = {grant.uid for grant in self.tenancy.grants.values()} - self.tenancy.tenants.keys()
        return frozenset(uid for uid in gone if self._has_processes and self._has_processes(uid))

    def let_go(self) -> frozenset[str]:
        """Take the cards back from pods that are gone for good, once all pods are known; returns the rest."""
        leaving = self.leaving
        if self.synced:
            self._swap(retained(self.tenancy, leaving))
        return leaving

    async def changed(self) -> None:
        """Return when something changes."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        try:
            await future
        finally:
            if future in self._waiting:
                self._waiting.remove(future)

    def _swap(self, tenancy: Tenancy) -> None:
        if tenancy == self.tenancy:
            return
        before, self.tenancy = self.tenancy, tenancy
        self._tell_moves(before.grants)
        self._announce()

    def _announce(self) -> None:
        self._news.set()
        for future in self._waiting:
            if not future.done():
                future.set_result(None)
        self._waiting.clear()

    async def publish(self) -> None:
        """Tell the publisher what the API should show, until cancelled; no call waits for that."""
        while True:
            await self._news.wait()
            self._news.clear()
            self._publish()
            await asyncio.sleep(_PUBLISH_PAUSE_S)

    def _publish(self) -> None:
        lineup = self.lineup if self.refusal is None else None
        self._publisher.want_node(wanted(lineup, assigned_text(self.tenancy)))
        self._publisher.want_pods(pod_patches(self.tenancy))
        if lineup:
            self._publisher.want_unhealthy(lineup.closed)
        here = self.tenancy.by_pod.keys() & self.tenancy.tenants.keys()
        self._metrics.pods.labels("running").set(len(here))
        self._metrics.pods.labels("leaving").set(len(self.tenancy.by_pod) - len(here))

    def _tell_moves(self, before: Mapping[Key, Grant]) -> None:
        """Pods that got another card than they were promised, once the kubelet has confirmed them."""
        for grant in self.tenancy.grants.values():
            known = before.get(grant.key)
            if grant.astray and grant.sure and not (known and known.sure and known.cards == grant.cards):
                self._tell_move(grant)

    def _tell_move(self, grant: Grant) -> None:
        tenant = self.tenancy.tenants.get(grant.uid)
        shares = held(self.tenancy, grant.uid)
        if tenant is None or not shares or shares == tenant.claim:
            return
        cards = ", ".join(f"{share.mem} on card {index}" for index, share in shares)
        promised = ", ".join(f"card {index}" for index, _ in tenant.claim or ()) or "no card"
        self._metrics.corrected.labels("moved" if tenant.claim else "unplaced").inc()
        log.info("pod_corrected", pod=grant.pod, cards=cards, promised=promised)
        text = f"holds {cards}; its annotations named {promised}"
        self._publisher.tell(pod_note(tenant.pod, EVENT_ASSIGNED, text))
