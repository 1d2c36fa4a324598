"""Pulumi components: one for each service, and ``GpuShare`` over all of them.

They register what the builders of ``components.manifests`` make, letter for letter; nothing is decided
here. Settings are checked before they come here (``components.stack``).
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

import pulumi

from components import config
from components.args import published
from components.manifests import (
    device_plugin,
    everything,
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
from components.manifests.pulls import localized, used
from components.stack import settled
from gpushare.kubescheduler.config import KubernetesVersion

if TYPE_CHECKING:
    Args = config.ClusterSettings | Mapping[str, object]
else:
    Args = published(config.ClusterSettings)

_WORKLOADS: Final = ("Deployment", "DaemonSet", "Job")
_RETAINED: Final = ("Namespace", "Node", "PriorityClass")
"""What the engine never deletes: workloads that are not the stack's live in it or refer to it."""
_SHARED: Final = (*_RETAINED, "APIService")
"""What a cluster has one of for everybody, so that somebody else may have set it before."""


def kubeconfig_of(stack: config.Stack) -> pulumi.Input[str] | None:
    """A path, or the text that another stack put out, as secret as it is there; None: as kubectl finds it."""
    source = stack.kubeconfig_from
    if source is None:
        return stack.kubeconfig or None
    text: pulumi.Output[str] = pulumi.StackReference(source.stack).require_output(source.output)
    return text


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
        super().__init__(f"gpushare:index:{type(self).__name__.removesuffix('Component')}", name, {}, opts)
        names: list[str] = []
        made: list[tuple[str, pulumi.Resource]] = []
        for manifest in objects:
            kind, own = manifest["kind"], manifest["metadata"]["name"]
            options = pulumi.ResourceOptions(
                parent=self,
                depends_on=_needed(kind, made),
                # None is the parent's: a program may retain everything.
                retain_on_delete=kind in _RETAINED or None,
            )
            made.append((kind, KubernetesObject(f"{name}-{kind}-{own}".lower(), manifest, options)))
            names.append(f"{kind}/{own}")
        self.names = pulumi.Output.from_input(names)
        self.register_outputs({"names": self.names})


def _needed(kind: str, made: list[tuple[str, pulumi.Resource]]) -> list[pulumi.Resource]:
    """Pods start when their rights and files are there; what lies in a namespace comes after it.

    The provider waits until a Service has pods, so that no pod may wait for a Service. Where one version of
    an API is another server's, no further version is taken.
    """
    if kind in _WORKLOADS:
        return [each for other, each in made if other not in (*_WORKLOADS, "Service")]
    return [each for other, each in made if other == "Namespace" or other == kind == "APIService"]


class SchedulerExtenderComponent(_Component):
    """The scheduler extender, and with ``sidecar`` the kube-scheduler beside it."""

    def __init__(
        self,
        name: str,
        args: config.Extender,
        version: KubernetesVersion,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__(name, extender.objects(args, version), opts)


class DevicePluginComponent(_Component):
    """The node agent on all pools, with the rights that they share."""

    def __init__(
        self, name: str, args: tuple[config.DevicePlugin, ...], opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__(name, device_plugin.objects(args), opts)


class EvictRecoverComponent(_Component):
    """What takes NVIDIA's plugin off shared nodes and brings it back."""

    def __init__(
        self, name: str, args: tuple[config.DevicePlugin, ...], opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__(name, evict_recover.objects(args), opts)


class NodePoolsComponent(_Component):
    """Labels and taints of nodes that are there already; they stay when the stack goes."""

    def __init__(
        self, name: str, args: tuple[config.NodePool, ...], opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__(name, node_pool.objects(args), opts)


class InstallerComponent(_Component):
    """What tells the control plane's own kube-scheduler of the extender."""

    def __init__(
        self,
        name: str,
        args: config.Installer,
        version: KubernetesVersion,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__(name, installer.objects(args, version), opts)


class IsolationInstallerComponent(_Component):
    """What puts the isolation library on nodes; files that it placed stay when the stack goes."""

    def __init__(self, name: str, args: config.Isolation, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, isolation.objects(args), opts)


class MpsDaemonsComponent(_Component):
    """What keeps an MPS control daemon up for each card.

    It stays when the stack goes: with its pods all CUDA programs of their nodes would end.
    """

    def __init__(self, name: str, args: config.Mps, opts: pulumi.ResourceOptions | None = None) -> None:
        retained = pulumi.ResourceOptions(retain_on_delete=True)
        super().__init__(name, mps.objects(args), pulumi.ResourceOptions.merge(opts, retained))


class MonitoringComponent(_Component):
    """What shows the use of the cards."""

    def __init__(
        self,
        name: str,
        args: config.Monitoring,
        version: KubernetesVersion,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__(name, monitoring.objects(args, version), opts)


class TenantComponent(_Component):
    """A namespace with its part of the cluster's GPU memory."""

    def __init__(self, name: str, args: config.Tenant, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, tenant.objects(args), opts)


class GpuShare(pulumi.ComponentResource):
    """Everything of one cluster, behind explicit providers.

    ``shared`` is the provider of objects that others may have set before (``_SHARED``), by default that of
    all objects. It should take over what exists and not force: a field that somebody else set differently
    is a conflict then, and stays as it is.
    """

    names: pulumi.Output[list[str]]
    """``<kind>/<name>`` of every object."""
    images: pulumi.Output[dict[str, str]]
    """The image of every container, by ``<workload>/<container>``."""
    extender_url: pulumi.Output[str]
    """Of the extender, as a kube-scheduler on the same node may reach it."""

    def __init__(
        self,
        name: str,
        args: Args,
        opts: pulumi.ResourceOptions | None = None,
        *,
        shared: pulumi.ProviderResource | None = None,
    ) -> None:
        settings = args if isinstance(args, config.ClusterSettings) else settled(args, config.ClusterSettings)
        super().__init__("gpushare:index:GpuShare", name, {}, opts)
        version = settings.kubernetes_version
        inside = pulumi.ResourceOptions(parent=self, transformations=[_localizer(settings), _sharer(shared)])
        extending = SchedulerExtenderComponent(f"{name}-extender", settings.extender, version, inside)
        # The installer edits nothing before the extender answers, so it need not start before that.
        behind = pulumi.ResourceOptions.merge(inside, pulumi.ResourceOptions(depends_on=[extending]))
        parts = [
            extending,
            DevicePluginComponent(f"{name}-device-plugin", settings.device_plugins, inside),
            EvictRecoverComponent(f"{name}-evict-recover", settings.device_plugins, inside),
            NodePoolsComponent(f"{name}-nodes", settings.node_pools, inside),
            *(
                [InstallerComponent(f"{name}-installer", settings.installer, version, behind)]
                if settings.installer
                else []
            ),
            *(
                [IsolationInstallerComponent(f"{name}-isolation", settings.isolation, inside)]
                if settings.isolation
                else []
            ),
            *([MpsDaemonsComponent(f"{name}-mps", settings.mps, inside)] if settings.mps else []),
            *(
                [MonitoringComponent(f"{name}-monitoring", settings.monitoring, version, inside)]
                if settings.monitoring
                else []
            ),
            *(TenantComponent(f"{name}-tenant-{each.name}", each, inside) for each in settings.tenants),
        ]
        self.names = pulumi.Output.all(*(part.names for part in parts)).apply(_flat)
        self.images = pulumi.Output.from_input(used(everything(settings)))
        self.extender_url = pulumi.Output.from_input(extender.url(settings.extender))
        self.register_outputs({"names": self.names, "images": self.images, "extenderUrl": self.extender_url})


def _localizer(settings: config.ClusterSettings) -> pulumi.ResourceTransformation:
    """Gives every object the cluster's registry and pull secrets."""

    def localize(args: pulumi.ResourceTransformationArgs) -> pulumi.ResourceTransformationResult:
        return pulumi.ResourceTransformationResult(localized(dict(args.props), settings), args.opts)

    return localize


def _sharer(provider: pulumi.ProviderResource | None) -> pulumi.ResourceTransformation:
    """Gives the objects of kinds in ``_SHARED`` that provider."""

    def share(args: pulumi.ResourceTransformationArgs) -> pulumi.ResourceTransformationResult:
        own = provider if args.props.get("kind") in _SHARED else None
        options = pulumi.ResourceOptions.merge(args.opts, pulumi.ResourceOptions(provider=own))
        return pulumi.ResourceTransformationResult(args.props, options)

    return share


def _flat(lists: list[list[str]]) -> list[str]:
    return [name for names in lists for name in names]


def _is_part(manifest: Object) -> bool:
    """Whether the object is not ours: it is there already, and we apply some fields of it."""
    return bool(manifest["kind"] == "Node")


def _token(manifest: Object) -> str:
    """``apps/v1`` and ``Deployment`` are ``kubernetes:apps/v1:Deployment``; the first group is named core.

    What patches an object that is there has a token of its own.
    """
    version = manifest["apiVersion"]
    patch = "Patch" if _is_part(manifest) else ""
    return f"kubernetes:{version if '/' in version else f'core/{version}'}:{manifest['kind']}{patch}"
