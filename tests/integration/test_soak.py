"""A minute of load and random faults on the whole stack, with a fixed seed; ``make soak`` runs it longer."""

import click
import pytest

from tests.soak.run import soak

pytestmark = [
    pytest.mark.integration,
    pytest.mark.needs("kubelet", "compiler", "root"),
    pytest.mark.timeout(900),
]


async def test_under_random_faults_no_gpu_is_overcommitted_and_no_pod_is_lost() -> None:
    summary = await soak(seed=18, minutes=1, say=click.echo)
    click.echo(summary.markdown())
    assert (summary.over_commits, summary.lost) == (0, 0)
    assert all(summary.ran[kind] > 0 for kind in ("real", "simulated")), "it proves nothing"
