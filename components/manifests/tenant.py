"""A tenant: a namespace, its quota of GPU memory, and its PriorityClass.

There is no LimitRange. With a maximum for containers, the API server sets that maximum as the default of
every container without GPU memory; with a maximum for pods, it rejects pods without GPU memory.
"""

from components.config import Tenant
from components.manifests.parts import Object
from gpushare.contract import RESOURCE_MEM


def objects(tenant: Tenant) -> list[Object]:
    """Namespace, quota and PriorityClass. Pods select the PriorityClass by name; it is not enforced."""
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "gpu-mem", "namespace": tenant.name},
        "spec": {"hard": {f"requests.{RESOURCE_MEM}": str(tenant.gpu_mem)}},
    }
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": tenant.name}},
        quota,
        *([_priority_class(tenant.name, tenant.priority)] if tenant.priority is not None else []),
    ]


def _priority_class(name: str, value: int) -> Object:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        "description": f"Pods of tenant {name}.",
    }
