"""Requests that no node can meet as they are written: invalid, misspelt, or for two kinds of GPUs. Pure."""

from collections.abc import Iterator
from itertools import chain
from typing import Final

from gpushare.contract import RESOURCE_MEM, RESOURCE_TIME_SLICED_GPU, RESOURCE_WHOLE_GPU
from gpushare.model.demand import NO_WHOLE_GPUS, Demand, Malformed
from gpushare.model.resource_names import meant, replacement
from gpushare.overview.explain.advice import Advice
from gpushare.overview.objects import ClusterPod
from gpushare.overview.pod_spec import ClusterContainer

_WHOLE: Final = (RESOURCE_WHOLE_GPU, RESOURCE_TIME_SLICED_GPU)

Finding = tuple[str, tuple[Advice, ...]]
"""A sentence, and what corrects the request."""


def not_ours(pod: ClusterPod) -> Finding:
    """Why gpushare does not place a pod that requests none of its resources."""
    summary = f"it requests no {RESOURCE_MEM}, so gpushare does not place it"
    hints = list(improper(pod))
    return (hints[0], tuple(_renamed(pod))) if hints else (summary, ())


def invalid(demand: Demand | Malformed, pod: ClusterPod) -> Finding | None:
    """Why no node can take the request; None if nodes decide."""
    if isinstance(demand, Demand):
        if not demand.has_suffix:
            return None
        return demand.suffix_hint, (Advice("amount", "correct the amount in the limits of the pod"),)
    return f"its request is invalid: {demand.problem}", tuple(_without_whole(pod))


def improper(pod: ClusterPod) -> Iterator[str]:
    """A sentence for each resource whose name resembles one of ours."""
    for container in _containers(pod):
        for name, amount in container.requests.items():
            if hint := meant(name, amount):
                yield f"container {container.name}: {hint}"


def _renamed(pod: ClusterPod) -> Iterator[Advice]:
    """What to write in place of these resources."""
    for container in _containers(pod):
        for name, amount in container.requests.items():
            if instead := replacement(name, amount):
                text = f"write {instead} instead of {name} in container {container.name}"
                yield Advice("resource-name", text)


def _without_whole(pod: ClusterPod) -> Iterator[Advice]:
    """What to remove from the containers that request units and whole GPUs."""
    for container in _containers(pod):
        if RESOURCE_MEM not in container.requests:
            continue
        for name in (each for each in _WHOLE if each in container.requests):
            text = f"remove {name} from container {container.name}: {NO_WHOLE_GPUS}"
            yield Advice("whole-gpu", text)


def _containers(pod: ClusterPod) -> Iterator[ClusterContainer]:
    return chain(pod.spec.init_containers or (), pod.spec.containers or ())
