"""Kubernetes objects as plain dicts, from settings. Pure: nothing here reads, writes or knows Pulumi.

The renderer and the Pulumi components use the same builders, so both ways give the very same objects.
"""

from components.config import Settings
from components.manifests import device_plugin, evict_recover, extender, tenant
from components.manifests.parts import Object


def everything(settings: Settings) -> list[Object]:
    """All objects of a cluster, in the order in which they can be applied."""
    return [
        *extender.objects(settings.extender, settings.kubernetes_version),
        *device_plugin.objects(settings.device_plugins),
        *evict_recover.objects(settings.device_plugins),
        *(each for one in settings.tenants for each in tenant.objects(one)),
    ]
