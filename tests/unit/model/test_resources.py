"""The CPU and memory of a pod, from those of its containers."""

import pytest

from gpushare.model.demand import ContainerKind
from gpushare.model.resources import NO_RESOURCES, Resources, requested_by

MAIN, INIT, SIDECAR = ContainerKind.MAIN, ContainerKind.INIT, ContainerKind.SIDECAR


@pytest.mark.parametrize(
    ("containers", "total"),
    [
        ([], NO_RESOURCES),
        ([(MAIN, 500, 64), (MAIN, 250, 32)], Resources(750, 96)),
        ([(INIT, 2000, 16), (MAIN, 500, 64)], Resources(2000, 64)),
        ([(INIT, 1000, 64), (INIT, 300, 96), (MAIN, 500, 64)], Resources(1000, 96)),
        ([(SIDECAR, 100, 8), (INIT, 450, 50), (MAIN, 400, 64)], Resources(550, 72)),
        ([(INIT, 450, 50), (SIDECAR, 100, 8), (MAIN, 200, 16)], Resources(450, 50)),
    ],
)
def test_a_pod_requests_what_runs_at_the_same_time(
    containers: list[tuple[ContainerKind, int, int]], total: Resources
) -> None:
    assert requested_by((kind, Resources(cpu, memory)) for kind, cpu, memory in containers) == total
