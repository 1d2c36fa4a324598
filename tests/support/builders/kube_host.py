"""The files of a host that is a node: services, settings and credentials, as an administrator has made them.

What belongs here: texts. What does not: GPUs and packages (``tests.support.fixtures.nvidia_site``), and
running hosts (``tests.support.fixtures.kube_hosts``).
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from testbed.control_plane.pki import PkiPair
from testbed.hosts.files import CONTAINERS_UNIT
from testbed.kubelets import files
from testbed.kubelets.programs import kube_proxy_argv
from testbed.kubelets.spec import RUNC, Subnet

PROGRAMS: Final = "/usr/local/bin"
TOOLS: Final = ("kubelet", "kube-proxy", "containerd", "containerd-shim-runc-v2", "ctr")
RUNC_FOLDER: Final = "/usr/local/sbin"
"""A folder, because runc starts itself from an overlay of its folder, which shows no file mounted in it."""
CNI: Final = "/usr/lib/cni"
KUBERNETES: Final = "/etc/kubernetes"
CA: Final = f"{KUBERNETES}/pki/ca.crt"
_UNITS: Final = "/etc/systemd/system"
_FIRST_SUBNET: Final = 200


def subnet(number: int) -> Subnet:
    """Return the addresses of the pods of a host."""
    return Subnet(_FIRST_SUBNET + number)


def texts(name: str, address: str, pods: Subnet, *, ca: str, pair: PkiPair) -> Mapping[str, str]:
    """Return path → text; ``pair`` is the server certificate of the kubelet."""
    config = files.kubelet({"staticPodPath": f"{KUBERNETES}/manifests"}, Path(CA))
    return {
        f"{_UNITS}/containerd.service": _service(f"{PROGRAMS}/containerd", CONTAINERS_UNIT, "notify"),
        f"{_UNITS}/kubelet.service": _service(_kubelet(name, address), "containerd.service"),
        f"{_UNITS}/kube-proxy.service": _service(_proxy(name, address), "kubelet.service"),
        f"{_UNITS}/multi-user.target.d/node.conf": "[Unit]\nWants=kube-proxy.service\n",
        "/etc/sysctl.d/50-forward.conf": "net.ipv4.ip_forward = 1\n",
        files.CONTAINERD_CONFIG: files.containerd(RUNC, Path(RUNC), Path(CNI)),
        files.CNI_CONFIG: files.cni_conflist(pods),
        files.KUBELET_CONFIG: json.dumps(config, indent=1),
        f"{files.KUBELET_PKI}/kubelet.crt": pair.cert.decode(),
        f"{files.KUBELET_PKI}/kubelet.key": pair.key.decode(),
        CA: ca,
    }


def _kubelet(name: str, address: str) -> str:
    flags = {
        "config": files.KUBELET_CONFIG,
        "kubeconfig": f"{KUBERNETES}/kubelet.conf",
        "hostname-override": name,
        "node-ip": address,
    }
    return " ".join([f"{PROGRAMS}/kubelet", *(f"--{flag}={value}" for flag, value in flags.items())])


def _proxy(name: str, address: str) -> str:
    program, kubeconfig = Path(f"{PROGRAMS}/kube-proxy"), Path(f"{KUBERNETES}/kube-proxy.conf")
    return " ".join(kube_proxy_argv(program, name, address, kubeconfig))


def _service(command: str, needs: str, kind: str = "simple") -> str:
    """A restart of the runtime restarts neither the kubelet nor containers, as with the units of packages."""
    return (
        f"[Unit]\nWants={needs}\nAfter={needs}\n"
        f"[Service]\nType={kind}\nExecStart={command}\nRestart=always\nRestartSec=1\nKillMode=process\nDelegate=yes\n"
    )


def kubeconfig(document: Mapping[str, Any], server: str) -> str:
    """Return a kubeconfig that reaches the API server at ``server``, whose certificate has other names."""
    clusters = [
        {**each, "cluster": {**each["cluster"], "server": server, "tls-server-name": "kubernetes"}}
        for each in document["clusters"]
    ]
    return json.dumps({**document, "clusters": clusters}, indent=1)
