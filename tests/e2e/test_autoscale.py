"""One ``pulumi up``, and the HPA of the ACK documentation follows the load of its pods' GPUs.

Exporter, metrics API and workload run from our images, with the deployed permissions. What is not real: the
GPUs (stubs of NVML and of the CUDA driver), and the plugin that allocates whole GPUs
(``testbed.daemons.whole_gpu_plugin``).
"""

import pytest

from release import ensure
from testbed.stories.autoscaling import autoscaled_cluster, steps
from testbed.stories.deployed import by_pulumi

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.needs("kubelet", "images"),
    pytest.mark.asyncio,
    pytest.mark.timeout(900),
]


async def test_after_one_up_requests_scale_the_service_to_two_replicas_and_their_end_back_to_one() -> None:
    images = await ensure()
    async with autoscaled_cluster(images, by_pulumi) as cluster:
        done = [step async for step in steps(cluster, images)]
        assert len(done) == 3
        events = await cluster.bed.api.items(
            "/api/v1/namespaces/default/events",
            fieldSelector="involvedObject.name=gpu-hpa,reason=SuccessfulRescale",
        )
        events.sort(key=lambda each: int(each["metadata"]["resourceVersion"]))
        assert [each["message"] for each in events] == [
            "New size: 2; reason: pods metric DCGM_CUSTOM_PROCESS_SM_UTIL above target",
            "New size: 1; reason: All metrics below target",
        ]
