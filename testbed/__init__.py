"""A real Kubernetes cluster with simulated GPUs on one machine, for tests, demos and benchmarks.

What belongs here: running the real control plane with simulated nodes. What does not: tests, and
anything that a gpushare daemon needs at run time. All servers listen on loopback only.

    async with Testbed(name="s0") as bed:
        await bed.add_nodes([SimNode("n1", cards=[SimGpu(), SimGpu()])])
        await bed.create_pods([gpu_pod("p", 4)])
"""

from devkit.errors import DevkitError
from devkit.process import Process
from devkit.waiting import until
from testbed.control_plane.bed import Bed
from testbed.control_plane.nodes import SimGpu, SimNode, gpu_pod
from testbed.control_plane.scheduler import SchedulerSpec
from testbed.control_plane.stages import SLOW_DELETE, SLOW_START
from testbed.control_plane.start import Testbed

__all__ = [
    "SLOW_DELETE",
    "SLOW_START",
    "Bed",
    "DevkitError",
    "Process",
    "SchedulerSpec",
    "SimGpu",
    "SimNode",
    "Testbed",
    "gpu_pod",
    "until",
]
