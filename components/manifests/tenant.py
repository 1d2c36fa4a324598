"""A tenant: a namespace, its part of the cluster's GPU memory, and a priority of its own.

There is no LimitRange. With a maximum of GPU memory for containers, the API server gives that maximum, as
the default, to every container that asks for none; with one for pods, it refuses pods that ask for none.
"""

from components.config import Tenant
from components.manifests.parts import Object
from gpushare.contract import RESOURCE_MEM


def objects(tenant: Tenant) -> list[Object]:
    """The namespace and what limits it. Pods pick the PriorityClass by name; nothing forces it on them."""
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
