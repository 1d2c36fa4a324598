"""Rolling updates that wait for themselves: the new pod needs the GPU of an old one of its workload. Pure.

The controller removes the old pod only once the new one is ready. Pods of a workload are recognised by their
names, as the controllers of Kubernetes make them, because a pod with a whole GPU is known by its name only.
"""

import re
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, replace
from typing import Final

from gpushare.model.cards import Card
from gpushare.model.objects import Pod
from gpushare.scheduling.book import Book
from gpushare.scheduling.fitting import PodRequest, fits

_BOOKS_PER_STEP: Final = 100


@dataclass(frozen=True, slots=True)
class SelfWait:
    """``pods`` on ``node`` are of the workload of the waiting pod, which fits there without them."""

    node: str
    pods: tuple[str, ...]
    workload: str

    @property
    def text(self) -> str:
        """The reason and the remedy."""
        namespaces = {name.partition("/")[0] for name in self.pods}
        names = " ".join(name.partition("/")[2] for name in self.pods)
        command = f"kubectl delete pod -n {min(namespaces)} {names}"
        return (
            f"the rolling update of {self.workload} waits for itself: {' and '.join(self.pods)} on node "
            f"{self.node} has the GPU, and would be replaced only after this pod runs; delete it: {command}"
        )


def self_wait_steps(
    books: Iterable[Book], pod: Pod, pod_request: PodRequest
) -> Generator[None, None, SelfWait | None]:
    """The old pods that a new one waits for, on the first node where they keep it out; None without any.

    Call it for a pod that fits on no node. Yields after some nodes.
    """
    is_old = _old_pods(pod)
    if is_old is None:
        return None
    for number, book in enumerate(books, 1):
        found = _of_workload(book, is_old)
        if found and fits(_without(book, found), pod_request):
            return SelfWait(book.name, tuple(sorted(found)), _workload(pod))
        if number % _BOOKS_PER_STEP == 0:
            yield
    return None


def _workload(pod: Pod) -> str:
    """What a user has applied: the Deployment of a ReplicaSet."""
    kind, _, name = pod.owner.partition("/")
    return f"Deployment {name.rpartition('-')[0]}" if kind == "ReplicaSet" else f"{kind} {name}"


def _old_pods(pod: Pod) -> Callable[[str, bool], bool] | None:
    """Whether a pod, by its name and whether it has a whole GPU, is of an older revision of the workload."""
    kind, _, name = pod.owner.partition("/")
    if kind == "ReplicaSet":
        deployment, _, revision = name.rpartition("-")
        mine = re.escape(f"{pod.namespace}/{deployment}")
        others = re.compile(rf"{mine}-(?!{re.escape(revision)}-)[a-z0-9]+-[a-z0-9]{{5}}")
        return lambda name, _: bool(others.fullmatch(name))
    if kind == "StatefulSet":
        # All revisions have the same names. A pod with a whole GPU is of another one than a pod with units.
        replicas = re.compile(rf"{re.escape(f'{pod.namespace}/{name}')}-[0-9]+")
        return lambda name, whole: whole and bool(replicas.fullmatch(name))
    return None


def _of_workload(book: Book, is_old: Callable[[str, bool], bool]) -> frozenset[str]:
    cards = book.node.cards if book.node else ()
    whole = {name for card in cards for name in card.whole_gpu_pods if is_old(name, True)}  # noqa: FBT003 - of a callback
    shared = {r.pod for r in book.reservations.values() if is_old(r.pod, False)}  # noqa: FBT003 - of a callback
    return frozenset(whole | shared)


def _without(book: Book, pods: frozenset[str]) -> Book:
    node = book.node and replace(book.node, cards=tuple(_freed(card, pods) for card in book.node.cards))
    reservations = {uid: r for uid, r in book.reservations.items() if r.pod not in pods}
    unhealthy = book.unhealthy - _closed_by(book, pods)
    return replace(book, node=node, unhealthy=unhealthy, reservations=reservations)


def _freed(card: Card, pods: frozenset[str]) -> Card:
    if not card.whole_gpu_pods:
        return card
    left = tuple(name for name in card.whole_gpu_pods if name not in pods)
    return replace(card, whole_gpu_pods=left, healthy=card.healthy or not left)


def _closed_by(book: Book, pods: frozenset[str]) -> frozenset[int]:
    """The GPUs in the list of unhealthy ones for the sake of these pods only: the agent adds them there."""
    cards = book.node.cards if book.node else ()
    return frozenset(
        card.index for card in cards if card.whole_gpu_pods and pods.issuperset(card.whole_gpu_pods)
    )
