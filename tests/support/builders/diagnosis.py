"""Snapshots of a healthy installation, and of one with faults, as the doctor reads them."""

from typing import Any

import msgspec
from msgspec import structs

from gpushare import __version__
from gpushare.adapters.kube.wire import WireCondition, WireConfigMap, WireNode, core_node
from gpushare.cli.doctor.installation import ApiService, Installation, Service, Unread, Workload
from gpushare.cli.doctor.rights import RIGHTS
from gpushare.contract import (
    AGENT_NAME,
    ANN_CARDS,
    EXPORTER_NAME,
    EXTENDER_NAME,
    ISOLATION_INSTALLER_NAME,
    LABEL_CGPU,
    RESOURCE_COUNT,
    RESOURCE_MEM,
)
from gpushare.kubescheduler.config import ExtenderConfig, extender_entry
from gpushare.model.cards import Card, format_cards
from gpushare.model.objects import Pod
from gpushare.monitoring.page import MetricSample
from gpushare.overview.objects import ClusterNode, ClusterPod
from gpushare.overview.system_pods import Lease, SystemPod
from gpushare.scheduling.snapshot import books_of

Json = dict[str, Any]
NOW_S = 1_800_000_000.0
RENEWED = "2027-01-15T08:00:00.000000Z"
"""The time ``NOW_S``."""
DENIED = Unread("pods is forbidden", "list pods")
ABSENT = Unread("not found", absent=True)


def gpu(index: int = 0, *, model: str = "Tesla T4", healthy: bool = True, fault: str = "") -> Card:
    return Card(index, 14, model=model, healthy=healthy and not fault, fault=fault)


def gpu_node(
    name: str = "gpu-1",
    *cards: Card,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    amounts: dict[str, str] | None = None,
    ready: bool = True,
    kubelet: str = "v1.36.3",
) -> Json:
    """A node; ``amounts`` replace its resources."""
    found = cards or (gpu(),)
    own = {RESOURCE_MEM: str(sum(card.units for card in found)), RESOURCE_COUNT: str(len(found))}
    resources = own if amounts is None else amounts
    return {
        "metadata": {
            "name": name,
            "labels": {LABEL_CGPU: "true"} if labels is None else labels,
            "annotations": {ANN_CARDS: format_cards(found), **(annotations or {})},
        },
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
            "nodeInfo": {"kubeletVersion": kubelet},
        },
    }


def system_pod(
    component: str,
    *words: str,
    name: str = "",
    node: str = "gpu-1",
    ready: bool = True,
    tag: str = __version__,
    container: str = "main",
    more: Json | None = None,
) -> SystemPod:
    """A pod of kube-system; ``more`` are fields of its spec."""
    spec = {
        "nodeName": node,
        "containers": [{"name": container, "image": f"example.com:5000/x:{tag}", "command": list(words)}],
    }
    return msgspec.convert(
        {
            "metadata": {"name": name or component, "labels": {"component": component}},
            "spec": spec | (more or {}),
            "status": {
                "phase": "Running",
                "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
            },
        },
        SystemPod,
    )


URL = "http://127.0.0.1:12345/gpushare-scheduler"


def scheduler_pod(*words: str, maps: bool = True) -> SystemPod:
    """A kube-scheduler; with ``maps`` its configuration is in the ConfigMap ``config``."""
    volume = {"name": "v", "configMap": {"name": "config"}} if maps else {"name": "v"}
    return system_pod(
        "kube-scheduler",
        more={
            "volumes": [volume],
            "containers": [
                {
                    "name": "kube-scheduler",
                    "image": "kube-scheduler:v1.36.3",
                    "command": ["kube-scheduler", *(words or ("--config=/etc/config/config.yaml",))],
                    "volumeMounts": [{"name": "v", "mountPath": "/etc/config"}],
                }
            ],
        },
    )


def config_map(name: str, **data: str) -> WireConfigMap:
    return msgspec.convert({"metadata": {"name": name}, "data": data}, WireConfigMap)


def scheduler_config(url: str = URL, **changes: Any) -> WireConfigMap:
    """The ConfigMap of ``scheduler_pod``; ``changes`` are fields of the extender's entry."""
    document = {"extenders": [extender_entry(ExtenderConfig(url)) | changes]}
    return config_map("config", **{"config.yaml": msgspec.json.encode(document).decode()})


def kube_proxy(text: str) -> WireConfigMap:
    return config_map("kube-proxy", **{"config.conf": text})


def node_port() -> Service:
    spec = {"ports": [{"port": 12345, "nodePort": 32766}]}
    return msgspec.convert({"metadata": {"name": EXTENDER_NAME}, "spec": spec}, Service)


def api_service(status: str, message: str = "") -> ApiService:
    condition = {"type": "Available", "status": status, "message": message}
    return msgspec.convert(
        {"metadata": {"name": "v1.usage.gpushare.io"}, "status": {"conditions": [condition]}},
        ApiService,
    )


def lease(holder: str = "a", renewed: str = RENEWED) -> Lease:
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewed}
    return msgspec.convert({"spec": spec}, Lease)


def replicas(count: int) -> Workload:
    return msgspec.convert({"metadata": {"name": EXTENDER_NAME}, "spec": {"replicas": count}}, Workload)


def sample(metric: str, number: float, **labels: str) -> MetricSample:
    return MetricSample(metric, labels, number)


EXTENDER_PAGE = (
    sample("gpushare_extender_requests_total", 3, verb="filter", result="ok"),
    sample("gpushare_extender_leader", 1),
    sample("gpushare_extender_cache_synced", 1, resource="pods"),
    sample("gpushare_extender_degraded_mode", 0, right="leases"),
    sample(
        "gpushare_extender_certificate_expiration_timestamp_seconds",
        NOW_S + 40 * 86_400,
        certificate="server",
    ),
)
AGENT_PAGE = (
    sample("gpushare_device_plugin_registered", 1, resource=RESOURCE_MEM),
    sample("gpushare_device_plugin_nvml_up", 1),
)
EXPORTER_PAGE = (sample("gpushare_exporter_source_up", 1, source="nvml"),)
PAGES = {EXTENDER_NAME: EXTENDER_PAGE, AGENT_NAME: AGENT_PAGE, EXPORTER_NAME: EXPORTER_PAGE}


def changed(page: tuple[MetricSample, ...], *new: MetricSample) -> tuple[MetricSample, ...]:
    """The page with other samples of the same names."""
    names = {each.metric for each in new}
    return (*(each for each in page if each.metric not in names), *new)


def extender_pod(*words: str, ready: bool = True, name: str = "") -> SystemPod:
    """An extender with TLS, or with this command line."""
    command = words or ("gpushare", "extender", "--tls-cert=/tls.crt")
    return system_pod(EXTENDER_NAME, *command, ready=ready, name=name)


def pending_extender(message: str, name: str = "") -> SystemPod:
    """An extender that no node takes, with the message of its scheduler."""
    made = extender_pod(ready=False, name=name)
    conditions = [WireCondition("PodScheduled", "False", "Unschedulable", message)]
    return structs.replace(made, status=structs.replace(made.status, phase="Pending", conditions=conditions))


def our_pods() -> list[SystemPod]:
    of_nodes = map(system_pod, (AGENT_NAME, EXPORTER_NAME, ISOLATION_INSTALLER_NAME))
    return [extender_pod(), *of_nodes, scheduler_pod()]


def healthy(
    nodes: list[Json] | None = None,
    pods: list[tuple[Pod, Json]] | None = None,
    unhealthy: dict[str, frozenset[int]] | None = None,
    **changes: Any,
) -> Installation:
    """A healthy installation with one node, apart from the given changes; ``pods`` with spec and status."""
    raw = [gpu_node()] if nodes is None else nodes
    core = [core_node(msgspec.convert(each, WireNode)) for each in raw]
    given = pods or []
    fields: dict[str, Any] = {
        "now_s": NOW_S,
        "version": "v1.36.3",
        "nodes": [msgspec.convert(each, ClusterNode) for each in raw],
        "books": books_of(core, [pod for pod, _ in given], unhealthy or {}),
        "pods": [(pod, msgspec.convert(details, ClusterPod)) for pod, details in given],
        "system_pods": our_pods(),
        "deployments": [replicas(1)],
        "services": [],
        "config_maps": [scheduler_config()],
        "lease": lease(),
        "policies": frozenset({"gpushare-agents", "gpushare-allocations", "gpushare-secrets"}),
        "api_services": [],
        "pages": PAGES,
        "cgroups": {"gpu-1": 2},
        "cpu_managers": {"gpu-1": "none"},
        "reviews": {(account, str(right)): True for account, rights in RIGHTS.items() for right in rights},
    }
    return Installation(**(fields | changes))
