"""Common parts of objects: metadata, probes, resources, security, volumes, roles.

What does not belong here: parts that only one service needs.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from components.config_pods import Toleration, control_plane_labels
from gpushare.contract import (
    ENV_VISIBLE_DEVICES,
    POD_RESOURCES_SOCKET,
    SYSTEM_NAMESPACE,
    VISIBLE_BY_MOUNTS,
)
from gpushare.kubescheduler.config import KubernetesVersion

Object = dict[str, Any]

OPS: Final = "ops"
"""Name of the port of health and metrics, by which it is scraped."""
APP_LABEL: Final = {"app": "gpushare"}
"""The label of all objects of gpushare, except for Nodes and Namespaces, which are those of others."""
NON_ROOT: Final = 65532
"""An unprivileged user and group, which own no files."""
POD_RESOURCES_FOLDER: Final = POD_RESOURCES_SOCKET.rpartition("/")[0]
"""Where containers find the PodResources socket of the kubelet."""
ALL_GPUS: Final = f"{VISIBLE_BY_MOUNTS}/all"
"""Mount path of ``all_gpus_volume``."""
AUTHENTICATION_READER: Final = "extension-apiserver-authentication-reader"
"""The Role of Kubernetes with which a server authenticates its clients."""
RBAC: Final = "rbac.authorization.k8s.io"
_RBAC_V1: Final = f"{RBAC}/v1"
_FIRST_POLICY_V1: Final = KubernetesVersion(1, 21)
_SECCOMP_FIELD: Final = KubernetesVersion(1, 19)
_SPREAD: Final = KubernetesVersion(1, 19)
"""Older API servers do not know the field, or only with a feature gate."""


def labels(component: str) -> dict[str, str]:
    """The two labels that the Services and DaemonSets of the Aliyun gpushare pair select."""
    return {**APP_LABEL, "component": component}


def metadata(name: str, marks: Mapping[str, str] | None = None) -> Object:
    """Metadata of an object in kube-system."""
    return {"name": name, "namespace": SYSTEM_NAMESPACE, **({"labels": dict(marks)} if marks else {})}


def sizes(cpu: str, memory: str) -> Object:
    """Requests equal limits, so that the pod is the last to be evicted."""
    size = {"cpu": cpu, "memory": memory}
    return {"requests": size, "limits": dict(size)}


def control_plane_terms(version: KubernetesVersion) -> list[Object]:
    """Node selector terms; one of them must match."""
    keys = control_plane_labels(version)
    return [{"matchExpressions": [{"key": key, "operator": "Exists"}]} for key in keys]


def placement(tolerations: Sequence[Toleration], priority_class: str) -> Object:
    """The nodes on which a pod may run, and its priority."""
    return {
        "priorityClassName": priority_class,
        "tolerations": [_toleration(each) for each in tolerations],
    }


def _toleration(each: Toleration) -> Object:
    fields = {
        "key": each.key,
        "operator": str(each.operator),
        "value": each.value,
        "effect": str(each.effect or ""),
    }
    return {name: value for name, value in fields.items() if value}


def rolling_update(max_unavailable: str) -> Object:
    """Update strategy of a DaemonSet."""
    count = max_unavailable if max_unavailable.endswith("%") else int(max_unavailable)
    return {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": count}}


def required_anti_affinity(marks: Mapping[str, str]) -> Object:
    """Never two pods with these labels on one node."""
    term = {"labelSelector": {"matchLabels": dict(marks)}, "topologyKey": "kubernetes.io/hostname"}
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}


def preferred_anti_affinity(marks: Mapping[str, str]) -> Object:
    """Two pods with these labels on one node only if no other node fits."""
    (term,) = required_anti_affinity(marks)["requiredDuringSchedulingIgnoredDuringExecution"]
    weighed = {"weight": 100, "podAffinityTerm": term}
    return {"preferredDuringSchedulingIgnoredDuringExecution": [weighed]}


def zone_spread(marks: Mapping[str, str], replicas: int, version: KubernetesVersion) -> Object:
    """Pods with these labels in different zones where that is possible; nothing for a single pod."""
    if replicas == 1 or version < _SPREAD:
        return {}
    constraint = {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": dict(marks)},
    }
    return {"topologySpreadConstraints": [constraint]}


def nodes_with_any(labels: Sequence[str]) -> Object:
    """Only nodes with at least one of these labels, ``key`` or ``key=value``."""
    terms = [{"matchExpressions": [_expression(text)]} for text in labels]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"nodeAffinity": required}


def _expression(text: str) -> Object:
    key, equals, value = text.partition("=")
    return {"key": key, "operator": "In", "values": [value]} if equals else {"key": key, "operator": "Exists"}


def http_probes(alive: str, ready: str, port: int | str, *, scheme: str | None = None) -> Object:
    """The three probes of a container that serves.

    The startup probe runs every second, for a fast start. It uses the liveness path, because a container that
    waits for the API server must not be restarted. The others fail after three periods.
    """
    return {
        "startupProbe": _http_probe(alive, port, scheme, period_s=1, failures=60),
        "livenessProbe": _http_probe(alive, port, scheme, period_s=10, failures=3),
        "readinessProbe": _http_probe(ready, port, scheme, period_s=5, failures=3),
    }


def _http_probe(path: str, port: int | str, scheme: str | None, *, period_s: int, failures: int) -> Object:
    request: Object = {"path": path, "port": port, **({"scheme": scheme} if scheme else {})}
    return {
        "httpGet": request,
        "periodSeconds": period_s,
        "timeoutSeconds": 3,
        "failureThreshold": failures,
    }


def container_security() -> Object:
    """Drops all privileges that our containers do not need."""
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }


def non_root_security(version: KubernetesVersion) -> Object:
    """Security context of a pod that needs no access to its node."""
    seccomp = {"seccompProfile": {"type": "RuntimeDefault"}} if version >= _SECCOMP_FIELD else {}
    return {"runAsNonRoot": True, "runAsUser": NON_ROOT, "runAsGroup": NON_ROOT, **seccomp}


def field_env(name: str, path: str) -> Object:
    """An environment variable with a field of the pod."""
    return {"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}


def host_path(name: str, path: str, kind: str) -> Object:
    """A hostPath volume; ``kind`` is its type, which the kubelet checks or creates."""
    return {"name": name, "hostPath": {"path": path, "type": kind}}


def all_gpus_volume() -> Object:
    """Requests all GPUs from NVIDIA's runtime where it accepts mounts, which come before the variable."""
    return host_path("all-cards", "/dev/null", "")


def all_gpus_env() -> Object:
    """Requests all GPUs from NVIDIA's runtime where it accepts no mounts, as that of the GPU Operator."""
    return {"name": ENV_VISIBLE_DEVICES, "value": "all"}


def driver_root_volume(path: str | None) -> list[Object]:
    """The root folder of the driver, if it is set; a driver container may create it later."""
    return [host_path("driver-root", path, "DirectoryOrCreate")] if path else []


def driver_root_mount(path: str | None) -> list[Object]:
    """Its mount, at the same path, in which a later mount of a driver container becomes visible."""
    mount = {
        "name": "driver-root",
        "mountPath": path,
        "readOnly": True,
        "mountPropagation": "HostToContainer",
    }
    return [mount] if path else []


def runtime_class(name: str | None) -> Object:
    """The RuntimeClass of a pod, if it has one."""
    return {"runtimeClassName": name} if name else {}


def daemon_set(name: str, marks: Mapping[str, str], pod: Object, update: Object | None = None) -> Object:
    """A DaemonSet in kube-system; its pods have the labels ``marks``."""
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": metadata(name, marks),
        "spec": {
            "selector": {"matchLabels": dict(marks)},
            **({"updateStrategy": update} if update else {}),
            "template": {"metadata": {"labels": dict(marks)}, "spec": pod},
        },
    }


def deployment(
    name: str,
    replicas: int,
    pod: Object,
    *,
    strategy: Object | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Object:
    """A Deployment in kube-system; ``annotations`` are those of its pods."""
    marks = labels(name)
    about = {"labels": marks, **({"annotations": dict(annotations)} if annotations else {})}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(name, marks),
        "spec": {
            "replicas": replicas,
            **({"strategy": strategy} if strategy else {}),
            "selector": {"matchLabels": marks},
            "template": {"metadata": about, "spec": pod},
        },
    }


def service(name: str, port: Object, kind: str = "ClusterIP") -> Object:
    """The Service of a Deployment of the same name."""
    marks = labels(name)
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(name, marks),
        "spec": {"type": kind, "ports": [port], "selector": marks},
    }


def disruption_budgets(name: str, replicas: int, version: KubernetesVersion) -> list[Object]:
    """The PodDisruptionBudget of a Deployment; none for a single pod, whose node could not be drained."""
    if replicas == 1:
        return []
    marks = labels(name)
    budget = {
        "apiVersion": "policy/v1" if version >= _FIRST_POLICY_V1 else "policy/v1beta1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata(name, marks),
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": marks}},
    }
    return [budget]


def rule(groups: str, resources: Sequence[str], verbs: Sequence[str], names: Sequence[str] = ()) -> Object:
    """One rule of a role; ``names`` limits it to objects of these names."""
    named = {"resourceNames": list(names)} if names else {}
    return {"apiGroups": [groups], "resources": list(resources), **named, "verbs": list(verbs)}


def filling(*names: str) -> Object:
    """The rule to create and fill these Secrets. By its name, `create` allows a server-side apply only."""
    return rule("", ["secrets"], ["get", "patch", "create"], names=names)


def account_with_rights(name: str, cluster: Sequence[Object], system: Sequence[Object]) -> list[Object]:
    """A service account with a ClusterRole and a Role in kube-system."""
    return [
        account(name),
        *cluster_rights(name, cluster),
        role(name, system),
        role_binding(name, name, name),
    ]


def account(name: str) -> Object:
    """A service account in kube-system."""
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata(name)}


def cluster_rights(name: str, rules: Sequence[Object]) -> list[Object]:
    """A ClusterRole and its binding to the account of the same name."""
    return [cluster_role(name, rules), cluster_role_binding(name, name, name)]


def cluster_role(name: str, rules: Sequence[Object], marks: Mapping[str, str] | None = None) -> Object:
    """A ClusterRole, with labels if it has ``marks``."""
    meta = {"name": name, **({"labels": dict(marks)} if marks else {})}
    return {"apiVersion": _RBAC_V1, "kind": "ClusterRole", "metadata": meta, "rules": list(rules)}


def role(name: str, rules: Sequence[Object]) -> Object:
    """A Role in kube-system."""
    return {"apiVersion": _RBAC_V1, "kind": "Role", "metadata": metadata(name), "rules": list(rules)}


def cluster_role_binding(name: str, role: str, account: str) -> Object:
    """Binds a ClusterRole to an account in kube-system."""
    return binding("ClusterRole", {"name": name}, role, [_account_subject(account)])


def role_binding(name: str, role: str, account: str) -> Object:
    """Binds a Role to an account, both in kube-system."""
    return binding("Role", metadata(name), role, [_account_subject(account)])


def _account_subject(name: str) -> Object:
    return {"kind": "ServiceAccount", "name": name, "namespace": SYSTEM_NAMESPACE}


def binding(kind: str, meta: Object, role: str, subjects: Sequence[Object]) -> Object:
    """Binds a role of this kind to any subjects."""
    return {
        "apiVersion": _RBAC_V1,
        "kind": f"{kind}Binding",
        "metadata": meta,
        "roleRef": {"apiGroup": RBAC, "kind": kind, "name": role},
        "subjects": list(subjects),
    }
