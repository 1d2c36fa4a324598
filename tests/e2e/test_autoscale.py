"""One ``pulumi up``, and the HPA of the ACK documentation follows the load of GPUs, as the tutorial has it.

Exporter, metrics API and workload run from our images, with the deployed permissions. What is not real: the
GPUs (stubs of NVML and of the CUDA driver), and the plugin that allocates whole GPUs
(``testbed.daemons.whole_gpu_plugin``). There is neither a DNS nor a kube-proxy: the client calls the pod.
"""

from pathlib import Path

import pytest

from release import ensure
from release.published import examples
from testbed import Bed
from testbed.kubelets import BUSYBOX_IMAGE
from testbed.stories.autoscaling import autoscaled_cluster
from testbed.stories.deployed import by_pulumi
from tests.support.fixtures.pages import follow

pytestmark = [pytest.mark.needs("kubelet", "images"), pytest.mark.timeout(900)]

APP = "bert-intent-detection"
CLIENT = "docker.io/library/busybox:1"


def write_examples(folder: Path, samples: str) -> None:
    """The manifests as users have them, with the image ``samples``."""
    (folder / "examples").mkdir()
    for name, text in examples(samples).items():
        (folder / f"examples/{name}.yaml").write_text(text)


async def test_after_one_up_the_tutorial_scales_the_service_to_two_replicas_and_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = await ensure()
    write_examples(tmp_path, images.references["samples"])
    monkeypatch.chdir(tmp_path)
    async with autoscaled_cluster(images, by_pulumi) as cluster:
        bed = cluster.bed

        async def reachable(text: str) -> str:
            return text.replace(CLIENT, BUSYBOX_IMAGE).replace(f"{APP}-svc", await address(bed))

        await follow(bed, "docs/tutorials/autoscale.md", reachable)


async def address(bed: Bed) -> str:
    """Where the only pod of the service listens."""
    (pod,) = await bed.api.items("/api/v1/namespaces/default/pods", labelSelector=f"app={APP}")
    return f"{pod['status']['podIP']}:8080"
