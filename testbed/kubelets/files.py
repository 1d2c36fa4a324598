"""The configuration files of kubelet, containerd, CNI and NVIDIA's toolkit on a node, as texts.

What belongs here: settings and their reasons. What does not: writing the files (``testbed.kubelets.node``).
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from testbed.kubelets.spec import KUBELET_PORT, NVIDIA, KubeletSpec, Subnet

CONTAINERD_CONFIG = "/etc/containerd/config.toml"
REGISTRIES = "/etc/containerd/certs.d"
CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
BUNDLES = "/run/containerd/io.containerd.runtime.v2.task/k8s.io"
CNI_CONFIG = "/etc/cni/net.d/10-testbed.conflist"
NVIDIA_CONFIG = "/etc/nvidia-container-runtime/config.toml"
KUBELET_CONFIG = "/var/lib/kubelet/config.yaml"
KUBELET_PKI = "/var/lib/kubelet/pki"
CDI_FOLDERS = ("/etc/cdi", "/var/run/cdi")
_SYSTEMD = {"cgroupDriver": "systemd", "failCgroupV1": True}
PAUSE_IMAGE = "docker.io/testbed/pause:1"


def texts(
    spec: KubeletSpec,
    subnet: Subnet,
    programs: Mapping[str, Path],
    cni: Path,
    ca: Path,
    *,
    systemd: bool = False,
) -> dict[str, str]:
    """Return path in the node → content; the files of ``spec`` override others.

    With ``systemd`` it manages the cgroups, and the kubelet requires cgroup v2.
    """
    drivers = _SYSTEMD if systemd else {}
    runtime = programs["nvidia-container-runtime"] if spec.runtime == NVIDIA else Path("runc")
    return {
        CONTAINERD_CONFIG: containerd(spec.runtime, runtime, cni, systemd=systemd),
        CNI_CONFIG: cni_conflist(subnet),
        NVIDIA_CONFIG: nvidia(),
        KUBELET_CONFIG: json.dumps(kubelet({**drivers, **spec.config}, ca), indent=1),
        **spec.files,
    }


def kubelet(changes: Mapping[str, Any], ca: Path) -> dict[str, Any]:
    """Return the KubeletConfiguration: the API server authorizes requests; swap and cgroup v1 are allowed."""
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "port": KUBELET_PORT,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(ca)},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": f"{KUBELET_PKI}/kubelet.crt",
        "tlsPrivateKeyFile": f"{KUBELET_PKI}/kubelet.key",
        "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
        "cgroupDriver": "cgroupfs",
        "failCgroupV1": False,
        "failSwapOn": False,
        # Root in a container may not lower the OOM score of a process.
        "oomScoreAdj": 0,
        "makeIPTablesUtilChains": False,
        "resolvConf": "",
        # The scheduler sees the resources of a device plugin within a second.
        "nodeStatusUpdateFrequency": "1s",
        "nodeStatusReportFrequency": "5m",
        # A folder of static pods that is created later is found within a second, not 20.
        "fileCheckFrequency": "1s",
        "evictionHard": {
            "memory.available": "50Mi",
            "nodefs.available": "1%",
            "nodefs.inodesFree": "1%",
            "imagefs.available": "1%",
        },
        "imageGCHighThresholdPercent": 100,
        **changes,
    }


def containerd(name: str, program: Path, cni: Path, *, systemd: bool = False) -> str:
    """Return the configuration of containerd: CDI enabled, ``program`` as the default runtime ``name``."""
    return f"""\
version = 3
disabled_plugins = [
  "io.containerd.nri.v1.nri",
  "io.containerd.snapshotter.v1.blockfile",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.erofs",
  "io.containerd.snapshotter.v1.native",
  "io.containerd.snapshotter.v1.zfs",
  "io.containerd.tracing.processor.v1.otlp",
]

[plugins.'io.containerd.cri.v1.images']
snapshotter = "overlayfs"

[plugins.'io.containerd.cri.v1.images'.registry]
config_path = "{REGISTRIES}"

[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = "{PAUSE_IMAGE}"

[plugins.'io.containerd.cri.v1.runtime']
enable_cdi = true
cdi_spec_dirs = {json.dumps(CDI_FOLDERS)}
disable_apparmor = true
# As the kubelet's oomScoreAdj.
restrict_oom_score_adj = true

[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ["{cni}"]
conf_dir = "{Path(CNI_CONFIG).parent}"

[plugins.'io.containerd.cri.v1.runtime'.containerd]
default_runtime_name = "{name}"

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.{name}]
runtime_type = "io.containerd.runc.v2"

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.{name}.options]
BinaryName = "{program}"
SystemdCgroup = {json.dumps(systemd)}
"""


def cni_conflist(subnet: Subnet) -> str:
    """Return the pod network: a veth pair from each pod to the node, addresses of the subnet of the node.

    On a bridge, replies between pods of one node would bypass its address translation, and Services would
    not work unless the module br_netfilter is loaded.
    """
    ipam = {
        "type": "host-local",
        "ranges": [[{"subnet": subnet.cidr, "rangeStart": subnet.first_pod, "gateway": subnet.gateway}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    plugins = [{"type": "ptp", "ipam": ipam}]
    return json.dumps({"cniVersion": "1.0.0", "name": "testbed", "plugins": plugins}, indent=1)


def nvidia() -> str:
    """Return the configuration of the toolkit: CDI mode, and devices by volume mounts only.

    The two ``accept`` settings prevent that a pod gets unallocated GPUs by setting NVIDIA_VISIBLE_DEVICES.
    """
    return f"""\
accept-nvidia-visible-devices-as-volume-mounts = true
accept-nvidia-visible-devices-envvar-when-unprivileged = false

[nvidia-container-runtime]
debug = "/var/log/nvidia-container-runtime.log"
log-level = "info"
mode = "cdi"
runtimes = ["runc"]

[nvidia-container-runtime.modes.cdi]
default-kind = "nvidia.com/gpu"
spec-dirs = {json.dumps(CDI_FOLDERS)}
"""
