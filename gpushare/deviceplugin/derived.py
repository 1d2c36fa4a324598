"""The settings of the agent's parts, from those of its command line."""

from pathlib import Path
from typing import Final

from gpushare.adapters.kubelet.pods import KubeletAccess
from gpushare.deviceplugin.core.health import HealthPolicy
from gpushare.deviceplugin.core.response import ResponseSettings
from gpushare.deviceplugin.core.xids import parse_xids
from gpushare.deviceplugin.kubelet.allocator import AllocateSettings
from gpushare.deviceplugin.node.gpus import GpuSettings
from gpushare.deviceplugin.settings import THIS_HOST, AgentSettings
from gpushare.isolation.layout import IsolationDirs
from gpushare.mps.layout import MpsDirs

_TOKEN_FILE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")


def card_settings(settings: AgentSettings) -> GpuSettings:
    """Which GPUs are shared, and when they are healthy."""
    return GpuSettings(
        settings.memory_unit,
        settings.supported_models_only,
        HealthPolicy(parse_xids(settings.ignored_xids), recovery_s=settings.recovery_seconds),
        watch_health=settings.health_check,
        unified_mib=settings.unified_memory_mib,
    )


def response_settings(settings: AgentSettings) -> ResponseSettings:
    """What containers get."""
    return ResponseSettings(
        by_index=settings.device_id_strategy == "index",
        folders=IsolationDirs(settings.isolation_libraries, settings.isolation_state),
        mps=MpsDirs(settings.mps_state),
    )


def allocate_settings(settings: AgentSettings) -> AllocateSettings:
    """How Allocate answers."""
    return AllocateSettings(
        response_settings(settings),
        settings.memory_unit,
        legacy_failure_env=settings.legacy_failure_env,
        timeout_s=settings.allocate_timeout,
    )


def kubelet_access(settings: AgentSettings) -> KubeletAccess | None:
    """The access to the kubelet's list of pods; None if it is not queried."""
    if not settings.query_kubelet:
        return None
    is_local = settings.kubelet_address == THIS_HOST
    return KubeletAccess(
        "127.0.0.1" if is_local else settings.kubelet_address,
        settings.kubelet_port,
        ca_file=settings.kubelet_ca,
        insecure=settings.kubelet_insecure_tls,
        server_name=settings.node_name if is_local else "",
        token=settings.token,
        token_file=None if settings.token or settings.client_cert else _TOKEN_FILE,
        client_cert=settings.client_cert,
        client_key=settings.client_key,
        timeout_s=settings.timeout,
    )
