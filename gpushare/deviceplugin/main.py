"""``gpushare device-plugin``: command line of the node agent.

Flags of the Aliyun plugin are parsed as by its Go program: with one dash or two, booleans with or without a
value.
"""

import os
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import click

from gpushare.adapters.kubelet.pods import CLUSTER_CA, KubeletAccess
from gpushare.contract import (
    AGENT_OPS_PORT,
    AGENT_RECORD,
    DEVICE_PLUGIN_FOLDER,
    ISOLATION_LIBRARIES,
    ISOLATION_STATE,
    MPS_SHM,
    MPS_STATE,
    POD_RESOURCES_SOCKET,
)
from gpushare.deviceplugin.core.health import HealthPolicy
from gpushare.deviceplugin.core.response import ResponseSettings
from gpushare.deviceplugin.core.xids import parse_xids
from gpushare.deviceplugin.kubelet.allocator import TIMEOUT_S, AllocateSettings
from gpushare.deviceplugin.node.cards import CardSettings
from gpushare.deviceplugin.settings import AgentSettings
from gpushare.errors import ConfigError
from gpushare.isolation.layout import IsolationDirs
from gpushare.model.options import DeviceListStrategy, MemoryUnit
from gpushare.mps.layout import MpsDirs
from gpushare.runtime.flags import (
    DRIVER_ROOT,
    NODE_NAME,
    PORT,
    SECONDS,
    FiniteRange,
    daemon_options,
    node_name_of,
    run_daemon,
)

_DEBUG_VERBOSITY: Final = 8
"""Lowest ``--v`` of the Aliyun plugin that corresponds to log level debug."""
_ANY_ADDRESS: Final = "0.0.0.0"  # noqa: S104 - the value of the Aliyun plugin for "this host"
_TOKEN_FILE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
_EXAMPLES: Final = """\b
Examples:
  gpushare device-plugin --node-name gpu-1 --kubeconfig /etc/kubernetes/kubelet.conf
  gpushare device-plugin --node-name gpu-1 --memory-unit MiB --device-list-strategy cdi"""

_Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def _option(name: str, **how: Any) -> _Decorator:
    """An option with one dash or two."""
    return click.option(f"--{name}", f"-{name}", name.replace("-", "_"), **how)


def _switch(name: str, *, default: bool, help: str, hidden: bool = False) -> _Decorator:  # noqa: A002 - click's name
    """A boolean option with an optional value: ``--mps``, ``--mps=false``."""
    return _option(
        name,
        type=bool,
        is_flag=False,
        flag_value=True,
        default=default,
        help=help,
        hidden=hidden,
        metavar="[BOOL]",
    )


@click.command(
    context_settings={"show_default": True, "help_option_names": ["-h", "--help"]}, epilog=_EXAMPLES
)
@NODE_NAME
@_option("memory-unit", default=str(MemoryUnit.GIB), help="Unit of gpu-mem: GiB or MiB.")
@click.option(
    "--device-list-strategy",
    type=click.Choice([str(each) for each in DeviceListStrategy]),
    default=str(DeviceListStrategy.MOUNTS),
    help="How containers get their GPUs. envvar rejects pods that set NVIDIA_VISIBLE_DEVICES themselves.",
)
@click.option(
    "--device-id-strategy",
    type=click.Choice(["uuid", "index"]),
    default="uuid",
    help="How GPUs are identified to the container runtime.",
)
@click.option(
    "--refuse-unlisted-models",
    is_flag=True,
    help="Exclude GPUs that are no data-centre GPUs, by their brand and name.",
)
@click.option(
    "--unified-memory-mib",
    type=click.IntRange(min=1),
    help="MiB that pods may allocate on a GPU that shares the memory of its host.  [default: not shared]",
)
@_switch(
    "health-check",
    default=True,
    help="Judge GPUs by recovery actions, XID errors and other answers of the driver.",
)
@click.option(
    "--ignored-xids",
    envvar="IGNORED_XIDS",
    default="",
    help="XID errors that close no GPU, although without a recovery action (drivers before 565) they would.",
)
@click.option(
    "--recovery-seconds",
    type=FiniteRange(min=0),
    default=60.0,
    help="Seconds of successful polls until a GPU that did not answer counts as recovered.",
)
@click.option(
    "--patience-seconds",
    type=FiniteRange(min=0),
    default=TIMEOUT_S,
    help="Seconds that Allocate waits until the pod of the call is known.",
)
@click.option(
    "--failure-as-env",
    is_flag=True,
    help="If no GPU fits, start the container with an invalid device (Aliyun behaviour) instead of rejecting "
    "it.",
)
@click.option(
    "--device-plugin-folder",
    type=click.Path(path_type=Path),
    default=Path(DEVICE_PLUGIN_FOLDER),
    help="The kubelet's directory of device plugin sockets and its checkpoint.",
)
@click.option(
    "--state-folder",
    type=click.Path(path_type=Path),
    help="Directory of the agent's record.  [default: gpushare in the device plugin directory]",
)
@click.option(
    "--pod-resources-socket",
    type=click.Path(path_type=Path),
    default=Path(POD_RESOURCES_SOCKET),
    help="Socket of the PodResources API, used if the kubelet's checkpoint cannot be read.",
)
@click.option(
    "--cgroup-root",
    type=click.Path(path_type=Path),
    default=Path("/sys/fs/cgroup"),
    help="Mount of the host's cgroups.",
)
@click.option(
    "--proc-root",
    type=click.Path(path_type=Path),
    help="Mount of the host's /proc.  [default: /proc, with hostPID]",
)
@DRIVER_ROOT
@click.option(
    "--isolation-libraries",
    type=click.Path(path_type=Path),
    default=Path(ISOLATION_LIBRARIES),
    help="Directory of the isolation library, the same on the node and in this container.",
)
@click.option(
    "--isolation-state",
    type=click.Path(path_type=Path),
    default=Path(ISOLATION_STATE),
    help="Directory of the containers' limits and regions, the same on the node and in this container.",
)
@click.option(
    "--mps-state",
    type=click.Path(path_type=Path),
    default=Path(MPS_STATE),
    help="Directory of the MPS pipes, the same on the node and in this container.",
)
@click.option(
    "--mps-shm",
    type=click.Path(path_type=Path),
    default=Path(MPS_SHM),
    help="Directory of the MPS shared memory on the node.",
)
@daemon_options(AGENT_OPS_PORT)
@_switch("query-kubelet", default=False, help="Query the kubelet for pods that the API server does not show.")
@_option("kubelet-address", default=_ANY_ADDRESS, help="Address of the kubelet; 0.0.0.0 is this host.")
@_option("kubelet-port", type=PORT, default=10250, help="Port of the kubelet.")
@click.option(
    "--kubelet-ca",
    type=click.Path(path_type=Path),
    default=CLUSTER_CA,
    help="CA certificate for the kubelet.",
)
@click.option("--kubelet-insecure-tls", is_flag=True, help="Do not verify the kubelet's certificate.")
@_option("client-cert", type=click.Path(path_type=Path), help="Client certificate for the kubelet.")
@_option("client-key", type=click.Path(path_type=Path), help="Key of the client certificate.")
@_option(
    "token",
    default="",
    help="Bearer token for the kubelet; default: the service account's.",
    show_default=False,
)
@_option("timeout", type=SECONDS, default=10.0, help="Timeout of kubelet requests in seconds.")
@_switch("mps", default=False, help="Accepted for compatibility; the node's label decides.", hidden=True)
@_switch("logtostderr", default=True, help="Accepted for compatibility.", hidden=True)
@_option("v", type=int, default=0, hidden=True, help="Verbosity of the Aliyun plugin: 8 and more is debug.")
def command(**flags: Any) -> None:
    """Allocate shares of this node's GPUs to containers, as a kubelet device plugin."""
    from gpushare.deviceplugin.daemon import run

    run_daemon("device-plugin", lambda: settings_of(flags, os.environ), run)


def original() -> None:
    """Entry point ``gpushare-device-plugin-v2``, the name of the Aliyun plugin."""
    command.main(prog_name="gpushare-device-plugin-v2")


def settings_of(flags: Mapping[str, Any], environ: Mapping[str, str]) -> AgentSettings:
    """Settings from parsed flags. Raises ConfigError for invalid combinations."""
    node = node_name_of(flags)
    unit = _unit(flags["memory_unit"])
    response = ResponseSettings(
        DeviceListStrategy(flags["device_list_strategy"]),
        by_index=flags["device_id_strategy"] == "index",
        folders=IsolationDirs(flags["isolation_libraries"], flags["isolation_state"]),
        mps=MpsDirs(flags["mps_state"], flags["mps_shm"]),
    )
    folder: Path = flags["device_plugin_folder"]
    return AgentSettings(
        node=node,
        kubeconfig=flags["kubeconfig"],
        ops_host=flags["ops_host"],
        ops_port=flags["ops_port"],
        log_level="debug" if flags["v"] >= _DEBUG_VERBOSITY else flags["log_level"],
        identity=environ.get("POD_NAME") or socket.gethostname(),
        folder=folder,
        state=flags["state_folder"] or (folder / AGENT_RECORD).parent,
        cgroups=flags["cgroup_root"],
        pod_resources=flags["pod_resources_socket"],
        cards=CardSettings(
            unit,
            flags["refuse_unlisted_models"],
            HealthPolicy(parse_xids(flags["ignored_xids"]), recovery_s=flags["recovery_seconds"]),
            watch_health=flags["health_check"],
            unified_mib=flags["unified_memory_mib"],
        ),
        allocate=AllocateSettings(
            response, unit, legacy_failure_env=flags["failure_as_env"], timeout_s=flags["patience_seconds"]
        ),
        kubelet=_kubelet(flags, node) if flags["query_kubelet"] else None,
        proc=flags["proc_root"],
        driver_root=flags["driver_root"],
    )


def _unit(text: str) -> MemoryUnit:
    """The unit; GiB with a warning for an unknown one, as in the Aliyun plugin."""
    if text in set(MemoryUnit):
        return MemoryUnit(text)
    click.echo(f"--memory-unit={text!r} is not GiB or MiB, using {MemoryUnit.GIB}", err=True)
    return MemoryUnit.GIB


def _kubelet(flags: Mapping[str, Any], node: str) -> KubeletAccess:
    if bool(flags["client_cert"]) != bool(flags["client_key"]):
        raise ConfigError("--client-cert and --client-key must be set together")
    local = flags["kubelet_address"] == _ANY_ADDRESS
    return KubeletAccess(
        "127.0.0.1" if local else flags["kubelet_address"],
        flags["kubelet_port"],
        ca_file=flags["kubelet_ca"],
        insecure=flags["kubelet_insecure_tls"],
        server_name=node if local else "",
        token=flags["token"],
        token_file=None if flags["token"] or flags["client_cert"] else _TOKEN_FILE,
        client_cert=flags["client_cert"],
        client_key=flags["client_key"],
        timeout_s=flags["timeout"],
    )
