"""Pulumi components: one per service, and ``GpuShare`` for all of them.

They register the objects of ``components.manifests`` unchanged; nothing is decided here. Settings are already
checked (``components.stack``).
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

import pulumi

from components import config
from components.args import published
from components.manifests import (
    admission,
    certificates,
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
from components.stack import checked_settings
from gpushare.kubescheduler.config import KubernetesVersion

if TYPE_CHECKING:
    Args = config.ClusterSettings | Mapping[str, object]
else:
    Args = published(config.ClusterSettings)

_WORKLOADS: Final = ("Deployment", "DaemonSet", "Job", "CronJob")
_RETAINED: Final = ("Namespace", "Node", "PriorityClass")
"""Kinds that the engine never deletes: workloads outside of the stack use them."""
_SHARED: Final = (*_RETAINED, "APIService")
"""Kinds that are shared with others, so that the object may exist before the deployment."""


def kubeconfig_of(stack: config.Stack) -> pulumi.Input[str] | None:
    """A path, or an output of another stack with its secrecy; None for the default of kubectl."""
    source = stack.kubeconfig_from
    if source is None:
        return stack.kubeconfig or None
    text: pulumi.Output[str] = pulumi.StackReference(source.stack).require_output(source.output)
    return text


class KubernetesObject(pulumi.CustomResource):
    """Any object, under the type token of the Kubernetes provider.

    The typed classes of the provider would expect the properties in another case.
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
                # None inherits from the parent: a program may retain everything.
                retain_on_delete=kind in _RETAINED or None,
                # The provider returns the object as it is, with what a daemon has written.
                additional_secret_outputs=["data"] if kind == "Secret" else None,
            )
            made.append((kind, KubernetesObject(f"{name}-{kind}-{own}".lower(), manifest, options)))
            names.append(f"{kind}/{own}")
        self.names = pulumi.Output.from_input(names)
        self.register_outputs({"names": self.names})


def _needed(kind: str, made: list[tuple[str, pulumi.Resource]]) -> list[pulumi.Resource]:
    """Workloads depend on accounts, roles and files; objects in a namespace depend on the namespace.

    The provider waits until a Service has pods, so pods must not depend on a Service. APIServices depend on
    each other: if another server owns one version of an API, no further version is taken over.
    """
    if kind in _WORKLOADS:
        return [each for other, each in made if other not in (*_WORKLOADS, "Service")]
    return [each for other, each in made if other == "Namespace" or other == kind == "APIService"]


class AdmissionPoliciesComponent(_Component):
    """Policies of the API server: who writes allocations, and what pods of tenants may not do."""

    def __init__(
        self, name: str, args: config.ClusterSettings, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__(name, admission.objects(args), opts)


class CertificatesComponent(_Component):
    """Makes and renews the certificates between kube-scheduler and the extender."""

    def __init__(
        self,
        name: str,
        args: config.Extender,
        version: KubernetesVersion,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__(name, certificates.objects(args, version), opts)


class SchedulerExtenderComponent(_Component):
    """The scheduler extender, with ``sidecar`` also its kube-scheduler."""

    def __init__(
        self,
        name: str,
        args: config.Extender,
        version: KubernetesVersion,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__(name, extender.objects(args, version), opts)


class DevicePluginComponent(_Component):
    """The node agent on all pools, with their shared roles."""

    def __init__(
        self, name: str, args: tuple[config.DevicePlugin, ...], opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__(name, device_plugin.objects(args), opts)


class EvictRecoverComponent(_Component):
    """Stops NVIDIA's plugin on shared nodes and restores it."""

    def __init__(
        self, name: str, args: tuple[config.DevicePlugin, ...], opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__(name, evict_recover.objects(args), opts)


class NodePoolsComponent(_Component):
    """Labels and taints of existing nodes; they stay when the stack is destroyed."""

    def __init__(
        self, name: str, args: tuple[config.NodePool, ...], opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__(name, node_pool.objects(args), opts)


class InstallerComponent(_Component):
    """Adds the extender to the default kube-scheduler."""

    def __init__(
        self,
        name: str,
        args: config.Installer,
        extending: config.Extender,
        version: KubernetesVersion,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__(name, installer.objects(args, extending, version), opts)


class IsolationInstallerComponent(_Component):
    """Installs the isolation library on nodes; its files stay when the stack is destroyed."""

    def __init__(self, name: str, args: config.Isolation, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, isolation.objects(args), opts)


class MpsDaemonsComponent(_Component):
    """Runs one MPS control daemon per GPU.

    It stays when the stack is destroyed: without its pods all CUDA programs of their nodes would end.
    """

    def __init__(self, name: str, args: config.Mps, opts: pulumi.ResourceOptions | None = None) -> None:
        retained = pulumi.ResourceOptions(retain_on_delete=True)
        super().__init__(name, mps.objects(args), pulumi.ResourceOptions.merge(opts, retained))


class MonitoringComponent(_Component):
    """Monitoring of the GPUs."""

    def __init__(
        self,
        name: str,
        args: config.Monitoring,
        version: KubernetesVersion,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__(name, monitoring.objects(args, version), opts)


class TenantComponent(_Component):
    """A namespace with a quota of GPU memory."""

    def __init__(self, name: str, args: config.Tenant, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, tenant.objects(args), opts)


class GpuShare(pulumi.ComponentResource):
    """Everything of one cluster, behind explicit providers.

    ``shared`` is the provider of objects that may already exist (``_SHARED``), by default the provider of all
    objects. It should upsert without force: a field with a different value of another manager is then a
    conflict and stays unchanged.
    """

    names: pulumi.Output[list[str]]
    """``<kind>/<name>`` of every object."""
    images: pulumi.Output[dict[str, str]]
    """The image of every container, by ``<workload>/<container>``."""
    extender_url: pulumi.Output[str]
    """URL of the extender for a kube-scheduler on the same node."""

    def __init__(
        self,
        name: str,
        args: Args,
        opts: pulumi.ResourceOptions | None = None,
        *,
        shared: pulumi.ProviderResource | None = None,
    ) -> None:
        kind = config.ClusterSettings
        settings = args if isinstance(args, kind) else checked_settings(args, kind)
        super().__init__("gpushare:index:GpuShare", name, {}, opts)
        version = settings.kubernetes_version
        inside = pulumi.ResourceOptions(parent=self, transformations=[_localizer(settings), _sharer(shared)])
        certifying = CertificatesComponent(f"{name}-certificates", settings.extender, version, inside)
        # The pods of the extender start when its certificate exists.
        certified = pulumi.ResourceOptions.merge(inside, pulumi.ResourceOptions(depends_on=[certifying]))
        extending = SchedulerExtenderComponent(f"{name}-extender", settings.extender, version, certified)
        # The installer waits for the extender before it edits, so it starts after the extender.
        behind = pulumi.ResourceOptions.merge(inside, pulumi.ResourceOptions(depends_on=[extending]))
        parts = [
            *(
                [AdmissionPoliciesComponent(f"{name}-admission", settings, inside)]
                if settings.admission
                else []
            ),
            certifying,
            extending,
            DevicePluginComponent(f"{name}-device-plugin", settings.device_plugins, inside),
            EvictRecoverComponent(f"{name}-evict-recover", settings.device_plugins, inside),
            NodePoolsComponent(f"{name}-nodes", settings.node_pools, inside),
            *(
                [
                    InstallerComponent(
                        f"{name}-installer", settings.installer, settings.extender, version, behind
                    )
                ]
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
    """Adds the registry and the pull secrets of the cluster to every object."""

    def localize(args: pulumi.ResourceTransformationArgs) -> pulumi.ResourceTransformationResult:
        return pulumi.ResourceTransformationResult(localized(dict(args.props), settings), args.opts)

    return localize


def _sharer(provider: pulumi.ProviderResource | None) -> pulumi.ResourceTransformation:
    """Sets this provider for objects of the kinds in ``_SHARED``."""

    def share(args: pulumi.ResourceTransformationArgs) -> pulumi.ResourceTransformationResult:
        own = provider if args.props.get("kind") in _SHARED else None
        options = pulumi.ResourceOptions.merge(args.opts, pulumi.ResourceOptions(provider=own))
        return pulumi.ResourceTransformationResult(args.props, options)

    return share


def _flat(lists: list[list[str]]) -> list[str]:
    return [name for names in lists for name in names]


def _is_part(manifest: Object) -> bool:
    """Whether the object already exists, and only some of its fields are applied."""
    return bool(manifest["kind"] == "Node")


def _token(manifest: Object) -> str:
    """``apps/v1`` and ``Deployment`` are ``kubernetes:apps/v1:Deployment``; the first group is named core.

    A patch of an existing object has another token.
    """
    version = manifest["apiVersion"]
    patch = "Patch" if _is_part(manifest) else ""
    return f"kubernetes:{version if '/' in version else f'core/{version}'}:{manifest['kind']}{patch}"
