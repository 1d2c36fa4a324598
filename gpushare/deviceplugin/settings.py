"""The device plugin's settings: what can be set, its unit, its default and why."""

from dataclasses import dataclass
from pathlib import Path

from gpushare.adapters.kubelet.pods import KubeletAccess
from gpushare.deviceplugin.kubelet.allocator import AllocateSettings
from gpushare.deviceplugin.node.cards import CardSettings


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """Made by the command line (``main``); every field has a flag or an environment variable.

    ``kubeconfig`` may name what is no file: then the service account is used, as the original does.
    ``folder`` is the kubelet's folder of device plugins, ``state`` the agent's own folder, ``cgroups``
    where the host's control groups are seen, ``pod_resources`` the kubelet's socket of that API.
    ``proc`` is where the host's processes are seen, None for this container's own if that is the host's.
    ``kubelet`` is how to ask the kubelet for its pods, None where it is not asked.
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
    manners: AllocateSettings
    kubelet: KubeletAccess | None = None
    proc: Path | None = None
