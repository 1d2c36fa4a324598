"""Kubernetes objects as plain dicts, from settings.

The builders do not use Pulumi and read only the files of ``components/monitoring``. The renderer and the
Pulumi components use the same builders, so both produce the same objects.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

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
    network,
    node_pool,
    tenant,
)
from components.manifests.certificate_jobs import named_by_content
from components.manifests.localized import localized
from components.manifests.parts import Object

RETAINED: Final = ("Namespace", "Node", "PersistentVolumeClaim", "PriorityClass")
"""Kinds that nothing deletes unasked, because workloads outside of the stack use them."""
STAGES: Final = ("certificates", "extender")
"""Names of the parts to complete one after the other, before all others."""
_TENANT: Final = "Tenant"


@dataclass(frozen=True, slots=True)
class Part:
    """The objects of one service, or of one tenant."""

    kind: str
    """Type of the component."""
    name: str
    """Name of the component, after that of the whole."""
    objects: Sequence[Object]
    after: str = ""
    """The part that must be complete before this part is created."""
    is_retained: bool = False
    """Whether the objects stay when the part is removed."""


def everything(settings: ClusterSettings) -> list[Object]:
    """All objects of a cluster, in the order in which they can be applied."""
    return [each for part in parts(settings) for each in part.objects]


def kept(settings: ClusterSettings) -> list[Object]:
    """The objects that a prune must not delete: what is retained, and everything of tenants."""
    return [each for part in parts(settings) for each in part.objects if _is_kept(part, each)]


def removable(settings: ClusterSettings) -> list[Object]:
    """The objects to delete once a configuration no longer has them."""
    return [each for part in parts(settings) for each in part.objects if not _is_kept(part, each)]


def without_stages(settings: ClusterSettings) -> list[Object]:
    """The objects of all parts that come after the stages."""
    return [each for part in parts(settings) if part.name not in STAGES for each in part.objects]


def stage(name: str, settings: ClusterSettings) -> list[Object]:
    """The objects of one stage."""
    return [each for part in parts(settings) if part.name == name for each in part.objects]


def _is_kept(part: Part, manifest: Object) -> bool:
    return part.is_retained or part.kind == _TENANT or manifest["kind"] in RETAINED


def parts(settings: ClusterSettings) -> list[Part]:
    """The parts of a cluster that have objects, in the order in which they can be applied."""
    version, extending = settings.kubernetes_version, settings.extender
    plugins, installed = settings.device_plugins, settings.installer
    found = [
        Part("AdmissionPolicies", "admission", admission.objects(settings) if settings.admission else []),
        Part("Certificates", "certificates", certificates.objects(extending, version)),
        # Its pods start when their certificate exists.
        Part("SchedulerExtender", "extender", extender.objects(extending, version), after="certificates"),
        Part("DevicePlugin", "device-plugin", device_plugin.objects(plugins, version, settings.isolation)),
        Part("EvictRecover", "evict-recover", evict_recover.objects(plugins)),
        Part("NodePools", "nodes", node_pool.objects(settings.node_pools)),
        # It waits for the extender before it edits, so it starts after the extender.
        Part(
            "Installer",
            "installer",
            installer.objects(installed, extending, version) if installed else [],
            after="extender",
        ),
        Part(
            "IsolationInstaller",
            "isolation",
            isolation.objects(settings.isolation) if settings.isolation else [],
        ),
        # Without its pods all CUDA programs of their nodes would end.
        Part("MpsDaemons", "mps", mps.objects(settings.mps) if settings.mps else [], is_retained=True),
        Part(
            "Monitoring",
            "monitoring",
            monitoring.objects(settings.monitoring, version) if settings.monitoring else [],
        ),
        *(Part(_TENANT, f"tenant-{each.name}", tenant.objects(each)) for each in settings.tenants),
    ]
    return [_localized(part, settings) for part in (*found, _network(found, settings)) if part.objects]


def _network(found: Sequence[Part], settings: ClusterSettings) -> Part:
    """The policies for the pods of all parts."""
    policies, workloads = settings.network_policies, [each for part in found for each in part.objects]
    return Part("NetworkPolicies", "network", network.objects(policies, workloads) if policies else [])


def _localized(part: Part, settings: ClusterSettings) -> Part:
    objects = [localized(each, settings) for each in part.objects]
    return replace(part, objects=[named_by_content(each) for each in objects])
