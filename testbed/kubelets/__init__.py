"""Nodes with a real kubelet and a real containerd, several on one machine.

What belongs here: nodes that run containers, which tests add to a testbed. What does not: the control plane
and simulated nodes (``testbed.control_plane``).

    async with Testbed(kwok=False) as bed:
        node = await add_kubelet(bed, KubeletSpec("gpu-a", labels={"gpushare": "true"}))
        print(await node.run_text(["ls", "/var/lib/kubelet"]))
"""

from testbed.kubelets.images import BUSYBOX_IMAGE
from testbed.kubelets.node import KubeletNode, add_kubelet
from testbed.kubelets.spec import KubeletSpec

__all__ = ["BUSYBOX_IMAGE", "KubeletNode", "KubeletSpec", "add_kubelet"]
