"""Fragmentation as FGD defines it: free units that the typical pods of a workload could not use.

Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent",
USENIX ATC '23; details as in kubernetes-scheduler-simulator, pkg/utils/frag.go at 8f3d641. A typical pod uses
free units of a GPU that has enough for it, on a node with enough GPUs and CPU and with its model; memory does
not count. All free units of a node are lost to a pod without GPUs.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from itertools import accumulate
from typing import Final

from gpushare.simulation.node_state import NodeState
from gpushare.simulation.workload import Shape, Workload

_TYPICAL: Final = 0.95
"""Part of the pods that typical ones cover."""
_Key = tuple[int, int, int, frozenset[str]]


def typical(pods: Iterable[Shape]) -> dict[_Key, float]:
    """CPU, GPUs, units and models of the most frequent pods → their weights, which add up to 1."""
    counts = Counter((pod.cpu, pod.gpus, pod.milli, pod.models) for pod in pods)
    least, covered = _TYPICAL * counts.total(), 0
    chosen: dict[_Key, int] = {}
    for key, count in counts.most_common():
        if covered >= least:
            break
        chosen[key] = count
        covered += count
    return {key: count / covered for key, count in chosen.items()}


class _Demands:
    """Typical pods that request the same GPUs: their weight by the CPU that is free."""

    def __init__(self, weights: dict[int, float]) -> None:
        self._cpus = sorted(weights)
        self._sums = [0.0, *accumulate(weights[cpu] for cpu in self._cpus)]

    def weight(self, cpu: int) -> float:
        return self._sums[bisect_right(self._cpus, cpu)]


class Fragmentation:
    """Of the typical pods of one workload."""

    def __init__(self, workload: Workload) -> None:
        self._typical = typical(workload.pods)
        self._cpus = sorted({cpu for cpu, *_ in self._typical})
        self._by_model: dict[str, list[tuple[int, int, _Demands]]] = {
            model: self._demands(model) for model in {node.model for node in workload.nodes}
        }
        self._useful: dict[tuple[str, int, int], float] = {}
        self._lost: dict[tuple[str, int, tuple[int, ...]], float] = {}

    def _demands(self, model: str) -> list[tuple[int, int, _Demands]]:
        grouped: dict[tuple[int, int], dict[int, float]] = {}
        for (cpu, gpus, milli, models), weight in self._typical.items():
            if gpus and (not models or model in models):
                group = grouped.setdefault((gpus, milli), {})
                group[cpu] = group.get(cpu, 0) + weight
        return [(gpus, milli, _Demands(weights)) for (gpus, milli), weights in grouped.items()]

    def of_all(self, nodes: Iterable[NodeState]) -> float:
        """The fragmented units of nodes."""
        return sum(self.of(node.spec.model, node.cpu, node.free) for node in nodes)

    def of(self, model: str, cpu: int, free: tuple[int, ...]) -> float:
        """The fragmented units of a node."""
        # Only the number of typical CPU requests that fit matters.
        key = model, bisect_right(self._cpus, cpu), free
        found = self._lost.get(key)
        if found is None:
            found = self._lost[key] = self._fragmented(model, cpu, key[1], free)
        return found

    def _fragmented(self, model: str, cpu: int, level: int, free: tuple[int, ...]) -> float:
        used = sum(each * self._weight_of_one(model, cpu, level, each) for each in free if each)
        for gpus, milli, demands in self._by_model[model]:
            if gpus > 1:
                fitting = [each for each in free if each >= milli]
                if len(fitting) >= gpus:
                    used += sum(fitting) * demands.weight(cpu)
        return sum(free) - used

    def _weight_of_one(self, model: str, cpu: int, level: int, free: int) -> float:
        """The weight of the typical pods of one GPU that a GPU with so much free could take."""
        key = model, level, free
        found = self._useful.get(key)
        if found is None:
            found = self._useful[key] = sum(
                demands.weight(cpu)
                for gpus, milli, demands in self._by_model[model]
                if gpus == 1 and milli <= free
            )
        return found
