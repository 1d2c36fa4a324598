"""Filter and prioritize for a caller that sends Node objects instead of names: an autoscaler that simulates.

Cluster Autoscaler does so with an extender in its scheduler configuration and ``nodeCacheCapable: false``
(kubernetes/autoscaler#9786). Of nodes that the ledger knows, the ledger decides, whatever their objects say.
"""

from collections.abc import Generator, Mapping, Sequence

from msgspec import Raw

from gpushare.extender.templates import Templates, templates_steps
from gpushare.scheduling import filtering
from gpushare.scheduling.filtering import FilterOutcome
from gpushare.scheduling.fitting import PodRequest
from gpushare.scheduling.ledger import Ledger
from gpushare.scheduling.templates import template_ledger_steps, without_placed


def filter_objects_steps(
    objects: Mapping[str, Raw], ledger: Ledger, pod_request: PodRequest, names: Sequence[str], most: int
) -> Generator[None, None, FilterOutcome]:
    """As ``filtering.filter_steps`` for these names, of which the objects are given.

    A bound pod is evaluated too: the caller asks where it could move.
    """
    templates, known = yield from _divided_steps(objects, ledger, pod_request, names)
    movable = without_placed(ledger, pod_request.uid)
    outcome = yield from filtering.filter_steps(movable, pod_request, known, most)
    books = yield from template_ledger_steps(ledger, templates.nodes.values(), pod_request.uid)
    added = yield from filtering.filter_steps(books, pod_request, list(templates.nodes))
    outcome.passed += added.passed
    # Unresolvable: on a new node there is nothing to evict.
    outcome.unresolvable |= {**added.failed, **added.unresolvable, **templates.refused}
    return outcome


def score_objects_steps(
    objects: Mapping[str, Raw], ledger: Ledger, pod_request: PodRequest
) -> Generator[None, None, dict[str, int]]:
    """As ``filtering.score_steps`` for these objects."""
    templates, known = yield from _divided_steps(objects, ledger, pod_request, list(objects))
    scores = yield from filtering.score_steps(ledger, pod_request, known)
    books = yield from template_ledger_steps(ledger, templates.nodes.values(), pod_request.uid)
    return scores | (yield from filtering.score_steps(books, pod_request, list(templates.nodes)))


def _divided_steps(
    objects: Mapping[str, Raw], ledger: Ledger, pod_request: PodRequest, names: Sequence[str]
) -> Generator[None, None, tuple[Templates, list[str]]]:
    """The templates among these nodes, and the names of the others.

    A pod without units fits on every node, so none of them has to be read.
    """
    unknown = {} if pod_request.demand.empty else _unknown(objects, ledger, names)
    templates = yield from templates_steps(unknown)
    return templates, [name for name in names if name not in unknown]


def _unknown(objects: Mapping[str, Raw], ledger: Ledger, names: Sequence[str]) -> dict[str, Raw]:
    """The objects of the nodes that the API does not have, as far as the ledger knows."""
    books = ledger.books
    return {name: objects[name] for name in names if (book := books.get(name)) is None or book.node is None}
