"""Nodes with their own kernel, user-mode Linux: cgroup v2 and systemd, whatever this machine has.

What belongs here: such nodes, which tests add to a testbed. What does not: nodes on the kernel of this
machine (``testbed.kubelets``), which are faster.

    async with Testbed(kwok=False) as bed:
        node = await add_uml_node(bed, KubeletSpec("v2"))
        print(await node.run_text(["cat", "/proc/self/cgroup"]))
"""

from testbed.uml.node import UmlNode, Unit, add_uml_node

__all__ = ["UmlNode", "Unit", "add_uml_node"]
