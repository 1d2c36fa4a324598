"""The settings of the node agent.

Flags of the Aliyun plugin are parsed as by its Go program: with one dash or two, booleans with or without a
value. ``deviceplugin.derived`` makes the settings of its parts of them.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import click

from gpushare.contract import (
    AGENT_OPS_PORT,
    AGENT_RECORD,
    CDI_FOLDERS,
    DEVICE_PLUGIN_FOLDER,
    ISOLATION_LIBRARIES,
    ISOLATION_STATE,
    MPS_STATE,
    POD_RESOURCES_SOCKET,
)
from gpushare.deviceplugin.core.xids import parse_xids
from gpushare.errors import ConfigError
from gpushare.model.options import DeviceListChoice, MemoryUnit
from gpushare.runtime.listener import ANY_ADDRESS
from gpushare.runtime.settings import (
    DriverRoot,
    Kubeconfig,
    Level,
    LogLevel,
    NodeName,
    NotNegative,
    OpsHost,
    OpsPort,
    Port,
    Seconds,
    setting,
)

THIS_HOST: Final = "0.0.0.0"  # noqa: S104 - the value of the Aliyun plugin for "this host"
_DEBUG_VERBOSITY: Final = 8
"""Lowest ``--v`` of the Aliyun plugin that corresponds to log level debug."""


class _Unit(click.ParamType[MemoryUnit]):
    """GiB with a warning for an unknown one, as in the Aliyun plugin."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> MemoryUnit:
        del param, ctx
        if value in set(MemoryUnit):
            return MemoryUnit(value)
        click.echo(f"--memory-unit={value!r} is not GiB or MiB, using {MemoryUnit.GIB}", err=True)
        return MemoryUnit.GIB


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """Settings of the node agent.

    ``kubeconfig`` may name a missing file: the service account is used then, as in the Aliyun plugin.
    """

    node_name: NodeName = ""
    memory_unit: Annotated[MemoryUnit, _Unit()] = setting(
        MemoryUnit.GIB, help="Unit of gpu-mem: GiB or MiB.", is_go=True
    )
    device_list_strategy: DeviceListChoice = setting(
        DeviceListChoice.AUTO,
        help="How containers get their GPUs. auto is cdi where kubelet, container runtime and a CDI "
        "specification allow it, else volume-mounts. envvar rejects pods that set NVIDIA_VISIBLE_DEVICES "
        "themselves.",
    )
    cdi_folders: tuple[Path, ...] = setting(
        tuple(map(Path, CDI_FOLDERS)),
        help="Folder of CDI specifications, the same on the node and in this container; of several, the last "
        "one that names a GPU counts.",
        flag="cdi-folder",
    )
    device_id_strategy: Literal["uuid", "index"] = setting(
        "uuid", help="How GPUs are identified to the container runtime."
    )
    supported_models_only: bool = setting(
        default=False, help="Exclude GPUs that are not data-centre GPUs, by their brand and name."
    )
    unified_memory_mib: Annotated[int, click.IntRange(min=1)] | None = setting(
        None,
        help="MiB that pods may allocate on each GPU that shares the memory of its host, such as a GB10 (DGX "
        "Spark), whose driver reports no size.  [default: not shared]",
    )
    health_check: bool = setting(
        default=True,
        help="Judge GPUs by recovery actions, XID errors and other answers of the driver.",
        is_go=True,
    )
    ignored_xids: str = setting(
        "",
        help="XID errors to ignore; with drivers before 565, which report no recovery action, they would "
        "close a GPU.",
        env="IGNORED_XIDS",
    )
    recovery_seconds: NotNegative = setting(
        60.0, help="Seconds of successful polls until a GPU that did not answer counts as recovered."
    )
    allocate_timeout: NotNegative = setting(
        5.0, help="Seconds that Allocate waits until the pod of the call is known."
    )
    legacy_failure_env: bool = setting(
        default=False,
        help="If no GPU fits, start the container with an invalid device (Aliyun behaviour) instead of "
        "rejecting it.",
    )
    device_plugin_folder: Path = setting(
        Path(DEVICE_PLUGIN_FOLDER),
        help="The kubelet's directory of device plugin sockets and its checkpoint.",
    )
    pod_resources_socket: Path = setting(
        Path(POD_RESOURCES_SOCKET),
        help="PodResources socket: tells unequal pods apart; shows whole GPUs without a checkpoint.",
    )
    cgroup_root: Path = setting(Path("/sys/fs/cgroup"), help="Mount of the host's cgroups.")
    proc_root: Path | None = setting(None, help="Mount of the host's /proc.  [default: /proc, with hostPID]")
    driver_root: DriverRoot = None
    isolation_libraries: Path = setting(
        Path(ISOLATION_LIBRARIES),
        help="Directory of the isolation library, the same on the node and in this container.",
    )
    isolation_state: Path = setting(
        Path(ISOLATION_STATE),
        help="Directory of the containers' limits and regions, the same on the node and in this container.",
    )
    mps_state: Path = setting(
        Path(MPS_STATE), help="Directory of the MPS pipes, the same on the node and in this container."
    )
    ops_host: OpsHost = ANY_ADDRESS
    ops_port: OpsPort = AGENT_OPS_PORT
    kubeconfig: Kubeconfig = None
    log_level: Level = LogLevel.INFO
    query_kubelet: bool = setting(
        default=False,
        help="Query the kubelet for pods that the API server does not show.",
        is_go=True,
    )
    kubelet_address: str = setting(
        THIS_HOST, help="Address of the kubelet; 0.0.0.0 is this host.", is_go=True
    )
    kubelet_port: Port = setting(10250, help="Port of the kubelet.", is_go=True)
    kubelet_ca: Path = setting(
        Path("/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"), help="CA certificate for the kubelet."
    )
    kubelet_insecure_tls: bool = setting(default=False, help="Do not verify the kubelet's certificate.")
    client_cert: Path | None = setting(None, help="Client certificate for the kubelet.", is_go=True)
    client_key: Path | None = setting(None, help="Key of the client certificate.", is_go=True)
    token: str = setting(
        "", help="Bearer token for the kubelet; default: the token of the service account.", is_go=True
    )
    timeout: Seconds = setting(10.0, help="Timeout of kubelet requests in seconds.", is_go=True)
    v: int = setting(
        0, help="Verbosity of the Aliyun plugin: 8 and more is debug.", is_go=True, is_hidden=True
    )

    @property
    def level(self) -> LogLevel:
        """Minimum level of log messages."""
        return LogLevel.DEBUG if self.v >= _DEBUG_VERBOSITY else self.log_level

    @property
    def state(self) -> Path:
        """Directory of the agent's record."""
        return (self.device_plugin_folder / AGENT_RECORD).parent


def check_values(settings: AgentSettings) -> None:
    """Raises ConfigError for values that cannot be used."""
    parse_xids(settings.ignored_xids)
    if bool(settings.client_cert) != bool(settings.client_key):
        raise ConfigError("--client-cert and --client-key must be set together")
