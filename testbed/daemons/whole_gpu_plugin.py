"""A STAND-IN for NVIDIA's device plugin: it offers whole GPUs as ``nvidia.com/gpu``, by UUID.

For nodes that do not share their GPUs. It registers with a real kubelet through the code of our agent.
Containers get the UUIDs of their GPUs in the environment and, as with ``DEVICE_LIST_STRATEGY=volume-mounts``,
as mounts, which NVIDIA's runtime replaces by the GPUs.

    python -m testbed.daemons.whole_gpu_plugin /var/lib/kubelet/device-plugins GPU-… GPU-…

It runs as a process of a node, or as a static pod, like NVIDIA's plugin on ACK.
"""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from devkit.process import Process
from devkit.waiting import until
from gpushare.contract import (
    DEVICE_PLUGIN_FOLDER,
    ENV_VISIBLE_DEVICES,
    RESOURCE_WHOLE_GPU,
    VISIBLE_BY_MOUNTS,
)
from gpushare.deviceplugin.core.interface import AllocateResponse, Device, Mount
from gpushare.deviceplugin.kubelet.registrar import Registrar
from gpushare.deviceplugin.metrics import PluginMetrics
from testbed.control_plane.api import Object
from testbed.daemons.agent import CardNode
from testbed.kubelets import BUSYBOX_IMAGE

NAME = "whole-gpu-plugin"
_FOLDER = str(Path(__file__).parents[2])
_NODE = "/node"


class WholeGpuPlugin:
    """Implements ``KubeletPlugin`` for GPUs that are always healthy."""

    resource = RESOURCE_WHOLE_GPU
    socket = "stand-in-nvidia-gpu.sock"

    def __init__(self, uuids: Sequence[str]) -> None:
        self._uuids = uuids

    def devices(self) -> list[Device]:
        """Return one device for each GPU."""
        return [Device(uuid) for uuid in self._uuids]

    async def changed(self) -> None:
        """Wait forever: the devices never change."""
        await asyncio.Event().wait()

    async def prefer(self, available: Sequence[str], must: Sequence[str], size: int) -> Sequence[str]:
        """Prefer the first UUIDs."""
        return [*must, *sorted(set(available) - set(must))][:size]

    async def allocate(self, ids: Sequence[str]) -> AllocateResponse:
        """Return the UUIDs in the environment and as mounts."""
        mounts = tuple(Mount("/dev/null", f"{VISIBLE_BY_MOUNTS}/{each}") for each in ids)
        return AllocateResponse({ENV_VISIBLE_DEVICES: ",".join(ids)}, mounts)

    def registered(self, *, up: bool) -> None:
        """Ignore the state of the registration."""


async def start_whole_gpu_plugin(node: CardNode) -> Process:
    """Start the stand-in on a node, and wait until the node offers its whole GPUs."""
    process = await node.kubelet.spawn(NAME, _argv(node), env={"PYTHONPATH": _FOLDER})
    await until_whole_gpus(node, len(node.stub.description.cards))
    return process


async def until_whole_gpus(node: CardNode, count: int) -> None:
    """Wait until the node offers ``count`` whole GPUs."""

    async def offered() -> bool:
        status = (await node.bed.api.get(f"/api/v1/nodes/{node.name}"))["status"]
        return int(status["allocatable"].get(RESOURCE_WHOLE_GPU, 0)) == count

    await until(offered, f"node {node.name} to offer {count} {RESOURCE_WHOLE_GPU}", 60)


def static_pod(node: CardNode) -> Object:
    """Return the stand-in as a static pod. Its image is a shell that runs this machine's program."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "nvidia-device-plugin", "namespace": "kube-system"},
        "spec": {
            "hostNetwork": True,
            "terminationGracePeriodSeconds": 1,
            "containers": [
                {
                    "name": "nvidia-device-plugin-ctr",
                    "image": BUSYBOX_IMAGE,
                    "command": ["busybox", "chroot", _NODE, *_argv(node)],
                    "env": [{"name": "PYTHONPATH", "value": _FOLDER}],
                    "volumeMounts": [{"name": "node", "mountPath": _NODE}],
                }
            ],
            "volumes": [{"name": "node", "hostPath": {"path": "/"}}],
        },
    }


def _argv(node: CardNode) -> list[str]:
    uuids = [card.uuid for card in node.stub.description.cards]
    return [sys.executable, "-m", "testbed.daemons.whole_gpu_plugin", DEVICE_PLUGIN_FOLDER, *uuids]


if __name__ == "__main__":
    asyncio.run(Registrar(WholeGpuPlugin(sys.argv[2:]), Path(sys.argv[1]), PluginMetrics()).run())
