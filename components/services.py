"""The services of a stack: their settings, and the options that their manifests decide, each with its reason.

A new option needs no line here, unless the manifest decides it. What does not belong here: what follows for
the keys of a section and for the arguments of a container (``components.options``).
"""

from typing import Final

from components.options import ServiceOptions
from gpushare.board.settings import BoardSettings
from gpushare.deviceplugin.settings import AgentSettings, check_values
from gpushare.exporter.settings import ExporterSettings
from gpushare.exporter.settings import check_durations as check_rounds
from gpushare.extender.settings import ExtenderSettings, WebhookSettings, check_choices
from gpushare.installer.settings import InstallSettings
from gpushare.metricsapi.settings import MetricsApiSettings
from gpushare.mpsd.settings import MpsSettings

_PORTS: Final = "probes, Services, scrapes and NetworkPolicies use its ports and addresses"
_FILES: Final = "the volumes of the manifest decide which files and folders there are, and where"
_ACCESS: Final = "the manifest decides with which rights it uses the API server"
_COMMON: Final = {"ops_host": _PORTS, "ops_port": _PORTS}
_SERVER: Final = {**_COMMON, "host": _PORTS, "port": _PORTS, "tls_cert": _FILES, "tls_key": _FILES}
EXTENDER: Final = ServiceOptions(
    ExtenderSettings,
    {
        **_SERVER,
        "client_ca": _FILES,
        "peer_port": _PORTS,
        "advertise_address": "it is the value of the pod",
        "kubeconfig": _ACCESS,
        "allow_without_lease": "`lease` decides it, and with it the rights of the account",
        "log_level": "`logLevel` is the variable LOG_LEVEL, as in the manifest of the Aliyun extender",
    },
    check_choices,
)
WEBHOOK: Final = ServiceOptions(
    WebhookSettings, {**_SERVER, "scheduler_name": "it is `extender.scheduler.name`"}
)
AGENT: Final = ServiceOptions(
    AgentSettings,
    {
        **_COMMON,
        "node_name": "it is the value of the pod",
        "kubeconfig": _ACCESS,
        "device_plugin_folder": _FILES,
        "pod_resources_socket": _FILES,
        "cgroup_root": _FILES,
        "proc_root": _FILES,
        "isolation_libraries": "it is `isolation.folder`",
        "isolation_state": _FILES,
        "mps_state": _FILES,
        "cdi_folders": "`cdiFolders` mounts them too",
        "kubelet_ca": _FILES,
        "client_cert": _FILES,
        "client_key": _FILES,
        "token": "it would be readable in the manifest; the kubelet knows the token of the account",
    },
    check_values,
)
EXPORTER: Final = ServiceOptions(
    ExporterSettings,
    {
        **_COMMON,
        "node_name": "it is the value of the pod",
        "kubeconfig": _ACCESS,
        "pod_resources_socket": _FILES,
        "proc_root": _FILES,
        "isolation_state": _FILES,
    },
    check_rounds,
)
METRICS_API: Final = ServiceOptions(
    MetricsApiSettings,
    {
        **_SERVER,
        "kubeconfig": _ACCESS,
        "exporter_namespace": "it is the namespace of the stack",
        "exporter_selector": "the stack sets the labels of the exporter",
        "exporter_port": _PORTS,
    },
)
BOARD: Final = ServiceOptions(BoardSettings, {**_SERVER, "kubeconfig": _ACCESS})
ISOLATION: Final = ServiceOptions(InstallSettings, {**_COMMON, "record": _FILES, "package": _FILES})
MPS: Final = ServiceOptions(MpsSettings, {**_COMMON, "state": _FILES, "shm": _FILES})
