"""Pulumi components: one per part of a cluster, and ``GpuShare`` for all of them.

They register the objects of ``components.manifests`` with the annotations for the provider
(``components.annotations``); which objects there are is not decided here. Settings are already checked
(``components.stack``).
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import pulumi

from components import config
from components.annotations import annotated
from components.args import published
from components.manifests import RETAINED, Part, everything, extender, parts
from components.manifests.localized import used
from components.manifests.parts import Object
from components.outputs import Outputs, separated
from components.stack import checked_settings

if TYPE_CHECKING:
    Args = config.ClusterSettings | Mapping[str, object]
else:
    Args = published(config.ClusterSettings)

_WORKLOADS: Final = ("Deployment", "DaemonSet", "Job", "CronJob")
_SHARED: Final = (*RETAINED, "APIService")
"""Kinds that are shared with others, so that the object may exist before the deployment."""


class KubernetesObject(pulumi.CustomResource):
    """Any object, under the type token of the Kubernetes provider.

    The typed classes of the provider would expect the properties in another case.
    """

    def __init__(self, name: str, manifest: Object, opts: pulumi.ResourceOptions) -> None:
        super().__init__(_token(manifest), name, manifest, opts)


class _Group(pulumi.ComponentResource):
    """The objects of one part, in the order of their builder."""

    names: pulumi.Output[list[str]]
    """``<kind>/<name>`` of every object."""

    def __init__(
        self,
        name: str,
        part: Part,
        outputs: Outputs,
        shared: pulumi.ProviderResource | None,
        opts: pulumi.ResourceOptions,
    ) -> None:
        super().__init__(f"gpushare:index:{part.kind}", name, {}, opts)
        made: list[tuple[str, pulumi.Resource]] = []
        for manifest in part.objects:
            kind, own = manifest["kind"], manifest["metadata"]["name"]
            options = pulumi.ResourceOptions(
                parent=self,
                depends_on=_needed(kind, made),
                provider=shared if part.is_retained or kind in _SHARED else None,
                # None inherits from the parent: a program may retain everything.
                retain_on_delete=part.is_retained or kind in RETAINED or None,
            )
            inserted = outputs.inserted(annotated(manifest))
            made.append((kind, KubernetesObject(f"{name}-{kind}-{own}".lower(), inserted, options)))
        self.names = pulumi.Output.from_input(outputs.inserted(_names(part)))
        self.register_outputs({"names": self.names})


def _needed(kind: str, made: list[tuple[str, pulumi.Resource]]) -> list[pulumi.Resource]:
    """Workloads depend on accounts, roles and files; objects in a namespace depend on the namespace.

    The provider waits until a Service has pods, so pods must not depend on a Service. APIServices depend on
    each other: if another server owns one version of an API, no further version is taken over.
    """
    if kind in _WORKLOADS:
        return [each for other, each in made if other not in (*_WORKLOADS, "Service")]
    return [each for other, each in made if other == "Namespace" or other == kind == "APIService"]


class GpuShare(pulumi.ComponentResource):
    """Everything of one cluster, behind explicit providers.

    ``shared`` is the provider of objects that may already exist (``_SHARED`` and retained parts), by default
    the provider of all objects. It must upsert, and should not force: a field with a different value of
    another manager is then a conflict and stays unchanged.
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
        outputs = separated({} if isinstance(args, kind) else args)
        settings = args if isinstance(args, kind) else checked_settings(outputs.settings, kind)
        super().__init__("gpushare:index:GpuShare", name, {}, opts)
        groups: dict[str, _Group] = {}
        for part in parts(settings):
            after = [groups[part.after]] if part.after in groups else None
            options = pulumi.ResourceOptions(parent=self, depends_on=after)
            groups[part.name] = _Group(f"{name}-{part.name}", part, outputs, shared, options)
        self.names = pulumi.Output.all(*(group.names for group in groups.values())).apply(_flat)
        self.images = pulumi.Output.from_input(outputs.inserted(used(everything(settings))))
        self.extender_url = pulumi.Output.from_input(extender.url(settings.extender))
        self.register_outputs({"names": self.names, "images": self.images, "extenderUrl": self.extender_url})


def _names(part: Part) -> list[str]:
    return [f"{each['kind']}/{each['metadata']['name']}" for each in part.objects]


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
