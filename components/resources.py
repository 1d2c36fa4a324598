"""Pulumi components: one for each service, and ``GpuShare`` over all of them.

They register what the builders of ``components.manifests`` make, letter for letter; nothing is decided
here. Settings are checked before they come here (``components.stack``).
"""

from collections.abc import Iterable
from typing import Final

import pulumi

from components import config
from components.manifests import device_plugin, evict_recover, extender, tenant
from components.manifests.parts import Object
from gpushare.model.scheduler_config import KubernetesVersion

_WORKLOADS: Final = ("Deployment", "DaemonSet")


class KubernetesObject(pulumi.CustomResource):
    """Any object, under the type token of the Kubernetes provider.

    The provider's typed classes would spell the same properties in another case on the way in.
    """

    def __init__(self, name: str, manifest: Object, opts: pulumi.ResourceOptions) -> None:
        super().__init__(_token(manifest), name, manifest, opts)


class _Component(pulumi.ComponentResource):
    """A group of objects, in the order of their builder."""

    names: pulumi.Output[list[str]]
    """``<kind>/<name>`` of every object."""

    def __init__(
        self, name: str, objects: Iterable[Object], opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__(f"gpushare:index:{type(self).__name__}", name, {}, opts)
        names: list[str] = []
        made: list[tuple[str, pulumi.Resource]] = []
        for manifest in objects:
            kind, own = manifest["kind"], manifest["metadata"]["name"]
            options = pulumi.ResourceOptions(parent=self, depends_on=_needed(kind, made))
            made.append((kind, KubernetesObject(f"{name}-{kind}-{own}".lower(), manifest, options)))
            names.append(f"{kind}/{own}")
        self.names = pulumi.Output.from_input(names)
        self.register_outputs({"names": self.names})


def _needed(kind: str, made: list[tuple[str, pulumi.Resource]]) -> list[pulumi.Resource]:
    """Pods start when their rights and files are there; what lies in a namespace comes after it."""
    if kind in _WORKLOADS:
        return [each for other, each in made if other not in _WORKLOADS]
    return [each for other, each in made if other == "Namespace"]


class SchedulerExtender(_Component):
    """The scheduler extender, and with ``sidecar`` the kube-scheduler beside it."""

    def __init__(
        self,
        name: str,
        args: config.Extender,
        version: KubernetesVersion,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__(name, extender.objects(args, version), opts)


class DevicePlugin(_Component):
    """The node agent on all pools, with the rights that they share."""

    def __init__(
        self, name: str, args: tuple[config.DevicePlugin, ...], opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__(name, device_plugin.objects(args), opts)


class EvictRecover(_Component):
    """What takes NVIDIA's plugin off shared nodes and brings it back."""

    def __init__(
        self, name: str, args: tuple[config.DevicePlugin, ...], opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__(name, evict_recover.objects(args), opts)


class Tenant(_Component):
    """A namespace with its part of the cluster's GPU memory."""

    def __init__(self, name: str, args: config.Tenant, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, tenant.objects(args), opts)


class GpuShare(pulumi.ComponentResource):
    """Everything of one cluster, behind one explicit provider."""

    names: pulumi.Output[list[str]]
    """``<kind>/<name>`` of every object."""

    def __init__(self, name: str, args: config.Settings, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpushare:index:GpuShare", name, {}, opts)
        inside = pulumi.ResourceOptions(parent=self)
        parts = [
            SchedulerExtender(f"{name}-extender", args.extender, args.kubernetes_version, inside),
            DevicePlugin(f"{name}-device-plugin", args.device_plugins, inside),
            EvictRecover(f"{name}-evict-recover", args.device_plugins, inside),
            *(Tenant(f"{name}-tenant-{each.name}", each, inside) for each in args.tenants),
        ]
        self.names = pulumi.Output.all(*(part.names for part in parts)).apply(_flat)
        self.register_outputs({"names": self.names})


def _flat(lists: list[list[str]]) -> list[str]:
    return [name for names in lists for name in names]


def _token(manifest: Object) -> str:
    """``apps/v1`` and ``Deployment`` are ``kubernetes:apps/v1:Deployment``; the first group is named core."""
    version = manifest["apiVersion"]
    return f"kubernetes:{version if '/' in version else f'core/{version}'}:{manifest['kind']}"
