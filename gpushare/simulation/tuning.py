"""The arrivals of one run: pods in random order, tuned to a load, as kubernetes-scheduler-simulator does it.

Source: github.com/hkust-adsl/kubernetes-scheduler-simulator, pkg/simulator/simulator.go at 8f3d641
(``SortClusterPods``, ``tuneDownPods``, ``tuneUpPods``).
"""

from random import Random

from gpushare.simulation.workload import Shape, Workload


def tuned(workload: Workload, load: float, rng: Random) -> list[Shape]:
    """The pods, shuffled, then removed or cloned at random until they request ``load`` of all GPUs.

    Clones are drawn from all pods, and arrive last.
    """
    pods = list(workload.pods)
    rng.shuffle(pods)
    target = load * workload.capacity
    requested = sum(pod.units for pod in pods)
    while requested > target:
        requested -= pods.pop(rng.randrange(len(pods))).units
    return pods + (_clones(workload.pods, target - requested, rng) if len(pods) == len(workload.pods) else [])


def _clones(pods: tuple[Shape, ...], missing: float, rng: Random) -> list[Shape]:
    """Clones up to the first that exceeds what is missing by one of its GPUs, as the source has it."""
    clones: list[Shape] = []
    while (clone := rng.choice(pods)).milli <= missing:
        clones.append(clone)
        missing -= clone.units
    return clones
