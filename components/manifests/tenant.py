"""A tenant: a namespace, its quota of GPUs, and its PriorityClass.

There is no LimitRange. With a maximum for containers, the API server sets that maximum as the default of
every container without GPU memory; with a maximum for pods, it rejects pods without GPU memory.
"""

from typing import Final

from components.config import Tenant
from components.manifests.parts import Object
from gpushare.contract import RESOURCE_CORE, RESOURCE_MEM, RESOURCE_WHOLE_GPU

_POD_SECURITY: Final = "pod-security.kubernetes.io"


def objects(tenant: Tenant) -> list[Object]:
    """Namespace, quota and PriorityClass. Pods select the PriorityClass by name; it is not enforced."""
    amounts = {RESOURCE_MEM: tenant.gpu_mem, RESOURCE_CORE: tenant.gpu_core, RESOURCE_WHOLE_GPU: tenant.gpus}
    hard = {f"requests.{name}": str(amount) for name, amount in amounts.items() if amount is not None}
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "gpu-mem", "namespace": tenant.name},
        "spec": {"hard": hard},
    }
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": tenant.name, **_security(tenant)}},
        quota,
        *([_priority_class(tenant.name, tenant.priority)] if tenant.priority is not None else []),
    ]


def _security(tenant: Tenant) -> Object:
    """Labels of Pod Security; workloads whose pods would be rejected are warned of when they are applied."""
    if tenant.pod_security is None:
        return {}
    return {"labels": {f"{_POD_SECURITY}/{mode}": str(tenant.pod_security) for mode in ("enforce", "warn")}}


def _priority_class(name: str, value: int) -> Object:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        "description": f"Pods of tenant {name}.",
    }
