"""Two minutes of load and random faults on the whole stack, a fixed seed; ``make test-soak`` runs longer.

A soak fails by itself if a GPU is over-committed or a pod is lost.
"""

import click
import pytest

from tests.soak.run import soak
from tests.soak.schedule import CI_MINUTES, CI_SEED

pytestmark = [pytest.mark.needs("kubelet", "second-kernel", "compiler", "root"), pytest.mark.timeout(1500)]


async def test_under_random_faults_no_gpu_is_overcommitted_and_no_pod_is_lost() -> None:
    summary = await soak(CI_SEED, CI_MINUTES, click.echo)
    click.echo(summary.markdown())
    assert summary.ran.keys() == {"real", "cgroup v2", "simulated"}, "it proves nothing"
    assert summary.recounts.keys() == {"real", "cgroup v2"}, "it proves nothing"
