"""Checks of GPUs and of the pods that use them or wait for them. Pure."""

from collections.abc import Mapping

from gpushare.cli.doctor.installation import (
    Installation,
    Unread,
    if_read,
    is_sharing,
    required,
)
from gpushare.cli.doctor.verdict import CheckVerdict, check, failed, ok, warning
from gpushare.contract import (
    ANN_CORDONED_CARDS,
    RESOURCE_WHOLE_GPU,
    SYSTEM_NAMESPACE,
    UNHEALTHY_PREFIX,
)
from gpushare.model.cards import unhealthy_map
from gpushare.model.modes import mode_of
from gpushare.overview.ledger_inputs import unhealthy_by_node, unreadable_by_node
from gpushare.overview.objects import ClusterNode
from gpushare.overview.words import counted, listed
from gpushare.scheduling.book import Book, reserved_shares


@check("gpu-models", "Models of GPUs")
def models(seen: Installation) -> CheckVerdict:
    """Whether all models of GPUs are supported."""
    books = required(seen.books)
    cards = [(usage.card, name) for name, book in books.items() for usage in book.usages]
    others = sorted({f"{card.model} on {name}" for card, name in cards if not card.is_listed})
    if others:
        return warning(
            f"not data-centre GPUs, so they get the lowest score: {listed(others)}",
            "kubectl get nodes -L gpushare.io/unlisted-model",
        )
    return ok(listed(sorted({card.model for card, _ in cards if card.model})) or "no model is published")


@check("gpu-health", "Health of GPUs")
def gpu_health(seen: Installation) -> CheckVerdict:
    """Whether all GPUs that are not cordoned are healthy, and all lists of unhealthy ones name GPUs."""
    books = required(seen.books)
    cordoned = _cordoned(seen)
    bad = [
        (name, usage.card.index)
        for name, book in sorted(books.items())
        for usage in book.usages
        if (usage.card.faulty or usage.card.index in book.unhealthy)
        and not usage.card.whole_gpu_pods
        and (name, usage.card.index) not in cordoned
    ]
    wrong = _wrong_lists(seen)
    problems = listed([*wrong.values()])
    if bad:
        node, index = bad[0]
        fault = next(each.card.fault for each in books[node].usages if each.card.index == index)
        cause = "; ".join(filter(None, (f"unhealthy: {_gpus(bad)}", fault, problems)))
        return failed(cause, f"kubectl describe node {node}; {_map_command(node)}")
    required(seen.config_maps)
    if wrong:
        return warning(problems, _map_command(next(iter(wrong))))
    return ok(counted(sum(len(book.usages) for book in books.values()), "GPU"))


def _wrong_lists(seen: Installation) -> dict[str, str]:
    """The problems of lists of unhealthy GPUs, by node."""
    if isinstance(seen.config_maps, Unread) or isinstance(seen.books, Unread):
        return {}
    books = seen.books
    absent = {
        node: f"{unhealthy_map(node)}: {node} has no GPU {min(unknown)}"
        for node, indices in unhealthy_by_node(seen.config_maps).items()
        if node in books and (unknown := indices - {usage.card.index for usage in books[node].usages})
    }
    unreadable = unreadable_by_node(seen.config_maps)
    return {node: problem for node, problem in sorted((absent | unreadable).items()) if node in books}


def _map_command(node: str) -> str:
    return f"kubectl get configmap -n {SYSTEM_NAMESPACE} {UNHEALTHY_PREFIX}{node} -o yaml"


def _cordoned(seen: Installation) -> set[tuple[str, int]]:
    nodes = if_read(seen.nodes)
    return {(node.name, index) for node in nodes for index in node.cordoned_cards}


def _gpus(found: list[tuple[str, int]]) -> str:
    return listed([f"GPU {index} of {name}" for name, index in found])


@check("cordoned-gpus", "Cordoned GPUs")
def cordoned_gpus(seen: Installation) -> CheckVerdict:
    """Whether an administrator has cordoned GPUs."""
    required(seen.nodes)
    found = sorted(_cordoned(seen))
    if not found:
        return ok("none")
    return warning(f"cordoned: {_gpus(found)}", f"kubectl annotate node {found[0][0]} {ANN_CORDONED_CARDS}-")


@check("overcommitted-gpus", "Over-committed GPUs")
def overcommitted_gpus(seen: Installation) -> CheckVerdict:
    """Whether a GPU has more units reserved than it has."""
    books = required(seen.books)
    found = [(name, usage.card.index) for name, book in sorted(books.items()) for usage in book.overcommitted]
    if found:
        return failed(f"over-committed: {_gpus(found)}", f"kubectl inspect gpushare -d {found[0][0]}")
    return ok("none")


@check("unshared-pods", "Pods on nodes that do not share")
def unshared_pods(seen: Installation) -> CheckVerdict:
    """Whether pods use units of nodes whose labels say that they no longer share."""
    nodes = required(seen.nodes)
    books = required(seen.books)
    found = {node.name: text for node in nodes if (text := _unshared(node, books))}
    if not found:
        return ok("none")
    command = f"kubectl get pods -A --field-selector spec.nodeName={min(found)}"
    twice = [node for node in nodes if node.name in found and node.allocatable(RESOURCE_WHOLE_GPU)]
    return (failed if twice else warning)(listed([*found.values()]), command)


def _unshared(node: ClusterNode, books: Mapping[str, Book]) -> str | None:
    """The pods that still use units of a node that no longer shares; None without any."""
    name = node.name
    _, closed = mode_of(node.labels)
    closed = closed or (None if is_sharing(node) else "no label selects it")
    book = books.get(name)
    pods = sorted(r.pod for r in book.reservations.values() if r.demand.mem) if closed and book else []
    if not pods:
        return None
    again = f", which may be allocated again as {RESOURCE_WHOLE_GPU}"
    twice = again if node.allocatable(RESOURCE_WHOLE_GPU) else ""
    return f"{name} does not share ({closed}), and pods use its GPUs{twice}: {listed(pods)}"


@check("unplaced-pods", "Pods without a known GPU")
def unplaced_pods(seen: Installation) -> CheckVerdict:
    """Whether pods with unknown GPUs count against every GPU of their node."""
    books = required(seen.books)
    found = sorted(pod for book in books.values() for pod in _unplaced(book))
    if found:
        return warning(
            f"pods whose GPU is not known count against every GPU of their node: {listed(found)}",
            "kubectl inspect gpushare -d",
        )
    return ok("none")


def _unplaced(book: Book) -> list[str]:
    if book.node is None or not book.node.cards:
        return []
    node = book.node
    return [r.pod for r in book.reservations.values() if r.demand.mem and reserved_shares(r, node) is None]


@check("pending-pods", "Pending pods")
def pending(seen: Installation) -> CheckVerdict:
    """Pods that request units and have no node."""
    required(seen.pods)
    found = sorted(seen.pending, key=lambda pod: pod.full_name)
    if not found:
        return ok("none")
    return warning(
        f"{counted(len(found), 'pod')}: {listed([pod.full_name for pod in found])}",
        f"kubectl gpushare explain {found[0].name} -n {found[0].namespace}",
    )
