"""The Kubernetes programs of a node as processes: command line, environment, readiness.

What belongs here: combining installed programs with the machine and the credentials of the testbed. What
does not: their configuration files (``testbed.kubelets.files``), and the start order
(``testbed.kubelets.node``).
"""

import asyncio
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gpushare.errors import ApiError
from testbed.control_plane.api import read_text
from testbed.control_plane.bed import Bed
from testbed.control_plane.components import url_ready
from testbed.kubelets import files
from testbed.kubelets.machine import NodeMachine
from testbed.kubelets.spec import KUBELET_PORT, RUNC
from testbed.programs.binaries import Installed

CONTAINERD, KUBELET, KUBE_PROXY = "containerd", "kubelet", "kube-proxy"
_SHIM = "containerd-shim-runc-v2"
_PROXY_PORT = 10249
_RULES_WRITTEN = re.compile(r"^kubeproxy_sync_proxy_rules_last_timestamp_seconds\S* [1-9]", re.MULTILINE)


@dataclass(frozen=True)
class Programs:
    """Starts the programs of the node on ``machine``; they end with it."""

    bed: Bed
    machine: NodeMachine
    tools: Mapping[str, Installed]

    async def containerd(self) -> None:
        """Start containerd, and return when it accepts connections."""
        socket = self.machine.path(files.CONTAINERD_SOCKET)

        async def answers() -> bool:
            try:
                _, writer = await asyncio.open_unix_connection(socket)
            except OSError:
                return False
            writer.close()
            return True

        own = (str(self.tools[name].path.parent) for name in (_SHIM, RUNC))
        env = {"PATH": ":".join([*own, os.environ["PATH"]])}
        argv = self.machine.inside([str(self.tools[CONTAINERD].path)])
        await self.machine.run(CONTAINERD, argv, answers, env)

    async def kubelet(self) -> None:
        """Start the kubelet, and return when it is healthy; its Node may not be Ready yet."""
        name, address = self.machine.layout.name, self.machine.subnet.node
        kubeconfig = self.bed.kubeconfig_for(f"system:node:{name}", ["system:nodes"])
        argv = [
            str(self.tools[KUBELET].path),
            f"--config={files.KUBELET_CONFIG}",
            f"--kubeconfig={kubeconfig}",
            f"--hostname-override={name}",
            f"--node-ip={address}",
        ]
        health = url_ready(f"https://{address}:{KUBELET_PORT}/healthz", self.bed.components.context)
        await self.machine.run(KUBELET, self.machine.inside(argv), health)

    async def kube_proxy(self) -> None:
        """Start kube-proxy on a Node that has its address; return when the rules are written."""
        name, address = self.machine.layout.name, self.machine.subnet.node
        kubeconfig = self.bed.kubeconfig_for("system:kube-proxy")
        argv = kube_proxy_argv(self.tools[KUBE_PROXY].path, name, address, kubeconfig)

        async def rules_written() -> bool:
            try:
                metrics = await read_text(f"http://{address}:{_PROXY_PORT}/metrics")
            except ApiError:
                return False
            return bool(_RULES_WRITTEN.search(metrics))

        await self.machine.run(KUBE_PROXY, self.machine.inside(argv), rules_written)


def kube_proxy_argv(binary: Path, node: str, address: str, kubeconfig: Path) -> list[str]:
    """Return the command line of kube-proxy: iptables rules, and no change outside the node."""
    return [
        str(binary),
        f"--kubeconfig={kubeconfig}",
        f"--hostname-override={node}",
        "--proxy-mode=iptables",
        f"--metrics-bind-address={address}:{_PROXY_PORT}",
        # 0 keeps the setting of the kernel: all nodes share the size of the connection table.
        "--conntrack-max-per-core=0",
        "--conntrack-min=0",
        "--conntrack-tcp-timeout-established=0",
        "--conntrack-tcp-timeout-close-wait=0",
        # As the kubelet's oomScoreAdj.
        "--oom-score-adj=0",
    ]
