"""Settings of the node agent."""

from dataclasses import dataclass
from pathlib import Path

from gpushare.adapters.kubelet.pods import KubeletAccess
from gpushare.deviceplugin.kubelet.allocator import AllocateSettings
from gpushare.deviceplugin.node.cards import CardSettings


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """Settings from the command line (``main``); every field has a flag or an environment variable.

    ``kubeconfig`` may name a missing file: the service account is used then, as in the Aliyun plugin.
    ``folder`` is the kubelet's device plugin directory, ``state`` the directory of the agent's record,
    ``cgroups`` the mount of the host's cgroups, and ``pod_resources`` the socket of the PodResources API.
    ``proc`` is the host's /proc (None: this container's /proc if it is the host's), ``kubelet`` the access to
    the kubelet's pod list (None: it is not queried), ``driver_root`` the folder below which NVML is (None:
    it is in the library path).
    """

    node: str
    kubeconfig: str | None
    ops_host: str
    ops_port: int
    log_level: str
    identity: str
    folder: Path
    state: Path
    cgroups: Path
    pod_resources: Path
    cards: CardSettings
    allocate: AllocateSettings
    kubelet: KubeletAccess | None = None
    proc: Path | None = None
    driver_root: Path | None = None
