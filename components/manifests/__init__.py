"""Kubernetes objects as plain dicts, from settings.

The builders do not use Pulumi and read only the files of ``components/monitoring``. The renderer and the
Pulumi components use the same builders, so both produce the same objects.
"""

from components.config import ClusterSettings
from components.manifests import (
    admission,
    certificates,
    device_plugin,
    evict_recover,
    extender,
    installer,
    isolation,
    monitoring,
    mps,
    node_pool,
    tenant,
)
from components.manifests.parts import Object
from components.manifests.pulls import localized


def everything(settings: ClusterSettings) -> list[Object]:
    """All objects of a cluster, in the order in which they can be applied."""
    version = settings.kubernetes_version
    objects = [
        *(admission.objects(settings) if settings.admission else []),
        *certificates.objects(settings.extender, version),
        *extender.objects(settings.extender, version),
        *device_plugin.objects(settings.device_plugins),
        *evict_recover.objects(settings.device_plugins),
        *node_pool.objects(settings.node_pools),
        *(installer.objects(settings.installer, settings.extender, version) if settings.installer else []),
        *(isolation.objects(settings.isolation) if settings.isolation else []),
        *(mps.objects(settings.mps) if settings.mps else []),
        *(monitoring.objects(settings.monitoring, version) if settings.monitoring else []),
        *(each for one in settings.tenants for each in tenant.objects(one)),
    ]
    return [localized(each, settings) for each in objects]
