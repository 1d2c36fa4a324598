"""The stories on real kubelets, as ``make demo`` runs them: containers start, users inspect them."""

import pytest

from testbed.stories import Story, notebooks, replicas, sample
from testbed.stories.play import kubelet_cluster, limits, perform, pod_events, show, show_on

pytestmark = [pytest.mark.integration, pytest.mark.needs("kubelet")]


async def played(story: Story) -> dict[str, str]:
    """Play a whole story; return the output of its commands."""
    async with kubelet_cluster(story) as nodes:
        bed = nodes[0].bed
        for step in story.steps:
            await perform(bed, step)
        reported = {command: await show(bed, command) for command in (*story.commands, *story.inside)}
        reported |= {command: await show_on(nodes[0], command) for command in story.on_node}
        return reported | {"limits": str(await limits(bed)), "events": str(await pod_events(bed))}


async def test_s0_each_notebook_may_use_4308_mib_as_in_the_ack_documentation() -> None:
    reported = await played(notebooks())
    assert reported["limits"].count("4308 MiB") == 3
    assert "12/14 (GiB) (85%)" in reported["kubectl gpushare top node -s"]
    assert reported["kubectl get pods"].count("Running") == 3
    assert reported["kubectl get pods"].count("Pending") == 1
    (env,) = (text for command, text in reported.items() if "exec" in command)
    assert {"ALIYUN_COM_GPU_MEM_IDX=0", "ALIYUN_COM_GPU_MEM_DEV=14"} < set(env.splitlines())
    assert "at most 2 of 14 free on GPU 0" in reported["events"]


async def test_s2_both_replicas_run_on_the_one_gpu() -> None:
    reported = await played(replicas())
    assert reported["limits"].count("4301 MiB") == 2
    assert "8/15 (53%)" in reported["kubectl inspect cgpu"]
    assert "ALIYUN_COM_GPU_MEM_CONTAINER=4" in reported["kubectl exec app-3g-v1-1 -- env | grep ALIYUN"]


async def test_s3_the_aliyun_inspect_command_runs_in_the_agents_pod() -> None:
    reported = await played(sample())
    text = reported["kubectl-inspect-gpushare-v2 -d"]
    assert text == reported["kubectl inspect gpushare -d"]
    p40, _, titan = text.partition("10.0.33.21")
    assert "1 (1%)" in p40
    assert "0 (0%)" in titan
    assert "Allocated/Total GPU Memory In Cluster:  1/165 (0%)" in text
