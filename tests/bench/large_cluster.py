"""The large cluster of the extender's benchmark: nodes of 8 GPUs, and pods that are bound already."""

import asyncio
import json
from functools import partial
from typing import Final

import click

from testbed import Bed, SimGpu, SimNode, gpu_pod, until
from testbed.control_plane.api import Object, read_text
from testbed.control_plane.nodes import node_object
from testbed.daemons.extender import ExtenderSpec

GPUS: Final = 8
BOUND_UNITS: Final = 10
"""On each GPU of 14 units: a pod of up to 4 fits, one of more needs an eviction."""
_PODS_PER_NODE: Final = GPUS + 1


def sim_node(index: int) -> SimNode:
    """A node of 8 GPUs."""
    return SimNode(node_name(index), [SimGpu()] * GPUS, pods=500)


def node_name(index: int) -> str:
    """The name of a node."""
    return f"node-{index:04}"


async def create(bed: Bed, nodes: int, pods: int) -> None:
    """Create nodes with a pod of 10 units on each GPU and one of 2 units, and other pods for the rest.

    No kubelet keeps these nodes alive, so the controller manager is stopped: it would evict all pods.
    """
    say(f"creating {nodes} nodes and {pods} pods")
    await bed.api.create_many(("/api/v1/nodes", node_object(sim_node(i))) for i in range(nodes))
    gpu = min(pods, nodes * _PODS_PER_NODE)
    await bed.create_pods((_bound_pod(i, nodes) for i in range(gpu)), concurrency=64)
    plain = (gpu_pod(f"q{i:05}", nodeName=node_name(i % nodes)) for i in range(pods - gpu))
    await bed.create_pods(plain, concurrency=64)
    await bed.stop("kube-controller-manager")
    # Timestamps have whole seconds, and these pods have no seals: they must be older than the extender's key.
    await asyncio.sleep(1)


def victims_on(node: int, nodes: int) -> list[str]:
    """The names of the GPU pods on a node."""
    return [_pod_name(node + turn * nodes) for turn in range(_PODS_PER_NODE)]


def _pod_name(number: int) -> str:
    return f"p{number:05}"


def _bound_pod(number: int, nodes: int) -> Object:
    """A pod with the annotations of a bind."""
    turn, node = divmod(number, nodes)
    card, units = (turn, BOUND_UNITS) if turn < GPUS else (0, 2)
    annotations = {
        "ALIYUN_COM_GPU_MEM_IDX": str(card),
        "ALIYUN_COM_GPU_MEM_POD": str(units),
        "ALIYUN_COM_GPU_MEM_DEV": "14",
        "ALIYUN_COM_GPU_MEM_ASSIGNED": "true",
        "ALIYUN_COM_GPU_MEM_ASSUME_TIME": "1700000000000000000",
        "scheduler.framework.gpushare.allocation": json.dumps({"0": {str(card): units}}),
    }
    return gpu_pod(_pod_name(number), units, annotations=annotations, nodeName=node_name(node))


async def until_leads(spec: ExtenderSpec) -> None:
    """Wait until this extender may bind."""
    await until(partial(_leads, spec), "the extender to lead", 120)


async def _leads(spec: ExtenderSpec) -> bool:
    return "gpushare_extender_leader 1.0" in await read_text(f"{spec.ops_url}/metrics", timeout_s=30)


def say(text: str) -> None:
    """Report progress on stderr."""
    click.echo(text, err=True)
