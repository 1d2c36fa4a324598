"""Checks of the settings before anything is rendered or applied. Pure; the first violation is raised.

Errors name the key, the value and the allowed values. Types and enumerations are checked in
``components.decode``, the format of single values in ``components.formats``.
"""

from collections.abc import Mapping
from itertools import combinations
from typing import Final, TypeVar

from components.checks_monitoring import check_ca, check_monitoring
from components.checks_pods import check_pods
from components.config import (
    ClusterSettings,
    DevicePlugin,
    Installer,
    NodePool,
    Stack,
    Tenant,
)
from components.config_extender import FIRST_MUTATING, Exposure, Extender, Scheduler, Webhook
from components.formats import (
    MODE_LABELS,
    check_labels,
    check_limits,
    check_name,
    check_registry,
    check_since,
    check_unique,
    check_url,
    modes_in,
)
from components.images import with_images
from components.manifests.certificates import makes_certificates, tls_secret
from components.options import check_options
from gpushare.contract import LABEL_CGPU, LABEL_NO_ISOLATION, LABEL_PLACEMENT
from gpushare.errors import ConfigError
from gpushare.kubescheduler.config import DEFAULT_SCHEDULER, DEFAULT_URL, KubernetesVersion
from gpushare.model.device_lists import FIRST_MINOR_WITH_CDI
from gpushare.model.modes import LIMITING, Mode, mode_of
from gpushare.model.options import DeviceListChoice

_REPLICAS: Final = (1, 2, 3)
_FIRST_SIDECAR: Final = KubernetesVersion(1, 18)
"""Older schedulers support extenders only in a Policy, which has no scheduler name."""
_FIRST_CDI: Final = KubernetesVersion(1, FIRST_MINOR_WITH_CDI)
_FIRST_SERVER_SIDE_APPLY: Final = KubernetesVersion(1, 18)
"""Older API servers do not track field managers."""
_MAX_POOL: Final = 37
"""The names of the DaemonSets of a pool are also label values."""
_RESERVED: Final = ("default", "kube-", "system-")
"""Prefixes of the namespaces and priority classes of Kubernetes."""

S = TypeVar("S", bound=ClusterSettings)


def check(raw: S) -> S:
    """The settings with an image for every component. Raises ConfigError for the first violation."""
    settings = with_images(raw)
    if settings.registry:
        check_registry("registry", settings.registry)
    _check_extender(settings.extender, settings.kubernetes_version)
    for index, plugin in enumerate(settings.device_plugins):
        _check_plugin(f"devicePlugins[{index}]", plugin, settings.kubernetes_version)
    _check_pools(settings.device_plugins)
    for index, pool in enumerate(settings.node_pools):
        _check_node_pool(f"nodePools[{index}]", pool, settings.kubernetes_version)
    _check_nodes(settings.node_pools)
    _check_agents(settings)
    if settings.installer:
        _check_installer(settings.installer, settings.extender)
    _check_isolation(settings)
    if settings.monitoring:
        check_monitoring(settings.monitoring)
    for index, tenant in enumerate(settings.tenants):
        _check_tenant(f"tenants[{index}]", tenant)
    check_unique("tenants", [tenant.name for tenant in settings.tenants])
    check_pods(settings)
    if settings.network_policies and not settings.network_policies.control_plane:
        raise ConfigError("networkPolicies.controlPlane: empty; list addresses, like 10.0.0.0/28")
    if isinstance(settings, Stack):
        _check_adoption(settings)
    return settings


def _check_adoption(stack: Stack) -> None:
    if stack.adopt and stack.extender.tls is None and makes_certificates(stack.extender):
        raise ConfigError(
            "extender.tls: required with adopt, because the schedulers of an Aliyun installation call the "
            "extender without TLS; use none, and stack as soon as you can configure the schedulers"
        )


def _check_extender(extender: Extender, version: KubernetesVersion) -> None:
    if extender.replicas not in _REPLICAS:
        raise ConfigError(f"extender.replicas: {extender.replicas} is not allowed; use 1, 2 or 3")
    if extender.replicas > 1 and not extender.lease:
        raise ConfigError(
            f"extender.lease: {extender.replicas} replicas need the Lease, because only the leader binds; "
            "use true, or extender.replicas: 1"
        )
    check_options("extender", extender)
    if extender.client_names and extender.tls_secret is None:
        raise ConfigError(
            "extender.clientNames: only for certificates of extender.tlsSecret; set it, or remove this"
        )
    if "" in extender.client_names:
        raise ConfigError("extender.clientNames: '' is not the name of a certificate; remove it")
    if extender.exposure is Exposure.SIDECAR:
        _check_sidecar(extender, version)
    elif extender.scheduler:
        raise ConfigError(
            f"extender.scheduler: not allowed with exposure {extender.exposure}; use {Exposure.SIDECAR}"
        )


def _check_sidecar(extender: Extender, version: KubernetesVersion) -> None:
    where = f"extender.exposure: {Exposure.SIDECAR}"
    if extender.replicas > 1 and not tls_secret(extender):
        raise ConfigError(
            f"{where} with {extender.replicas} replicas needs certificates, because they forward binds to "
            "each other; set extender.tls: stack, extender.tlsSecret, or extender.replicas: 1"
        )
    if extender.replicas == 1 and extender.tls_secret:
        raise ConfigError(
            f"{where} with one replica serves only its own pod; remove extender.tlsSecret, or set "
            "extender.replicas: 3"
        )
    check_since(where, version, _FIRST_SIDECAR)
    if extender.scheduler:
        _check_scheduler("extender.scheduler", extender.scheduler, version)


def _check_webhook(where: str, scheduler: Scheduler, webhook: Webhook, version: KubernetesVersion) -> None:
    if not scheduler.set_scheduler_name:
        raise ConfigError(f"{where}.webhook: not allowed with {where}.setSchedulerName false; remove it")
    if version >= FIRST_MUTATING:
        raise ConfigError(
            f"{where}.webhook: from Kubernetes {FIRST_MUTATING} on, a policy does the same; remove it"
        )
    where = f"{where}.webhook"
    check_options(where, webhook)
    check_ca(where, webhook)


def _check_scheduler(where: str, scheduler: Scheduler, version: KubernetesVersion) -> None:
    if scheduler.name == DEFAULT_SCHEDULER:
        raise ConfigError(f"{where}.name: {DEFAULT_SCHEDULER!r} is the default scheduler; use another")
    if scheduler.webhook:
        _check_webhook(where, scheduler, scheduler.webhook, version)
    check_limits(where, (scheduler.cpu, scheduler.memory), (scheduler.cpu_limit, scheduler.memory_limit))


def _check_plugin(where: str, plugin: DevicePlugin, version: KubernetesVersion) -> None:
    check_options(where, plugin)
    if plugin.name:
        check_name(f"{where}.name", plugin.name, longest=_MAX_POOL)
    _check_selector(f"{where}.nodeSelector", plugin.node_selector)
    if plugin.device_list_strategy is DeviceListChoice.CDI:
        check_since(f"{where}.deviceListStrategy: {DeviceListChoice.CDI}", version, _FIRST_CDI)
    if plugin.evict_recover and not modes_in(plugin.node_selector):
        raise ConfigError(
            f"{where}.evictRecover: true needs a mode label in nodeSelector; "
            f"use one of {', '.join(MODE_LABELS)}"
        )


def _check_selector(where: str, selector: Mapping[str, str]) -> None:
    if not selector:
        raise ConfigError(f"{where}: empty, which selects every node; set a label such as {LABEL_CGPU}")
    check_labels(where, selector)
    _, not_sharing = mode_of(selector)
    if not_sharing:
        raise ConfigError(f"{where}: {not_sharing}, so the node agent would not serve this pool")


def _check_pools(plugins: tuple[DevicePlugin, ...]) -> None:
    check_unique("devicePlugins", [plugin.name for plugin in plugins])
    for (first, one), (second, other) in combinations(enumerate(plugins), 2):
        if not _are_disjoint(one.node_selector, other.node_selector):
            raise ConfigError(
                f"devicePlugins[{second}].nodeSelector: {_labels(other.node_selector)} and the nodeSelector "
                f"of devicePlugins[{first}], {_labels(one.node_selector)}, can select the same node; "
                "use different values of one label"
            )


def _are_disjoint(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Whether no node can have the labels of both."""
    return any(one[key] != other[key] for key in one.keys() & other.keys())


def _check_node_pool(where: str, pool: NodePool, version: KubernetesVersion) -> None:
    check_since(where, version, _FIRST_SERVER_SIDE_APPLY)
    if not pool.nodes:
        raise ConfigError(f"{where}.nodes: empty; list the nodes")
    if LABEL_PLACEMENT in pool.labels:
        raise ConfigError(f"{where}.labels: {LABEL_PLACEMENT!r} is not allowed here; use {where}.placement")


def _check_nodes(pools: tuple[NodePool, ...]) -> None:
    nodes = [(index, node) for index, pool in enumerate(pools) for node in pool.nodes]
    for (first, one), (second, other) in combinations(nodes, 2):
        if one == other:
            raise ConfigError(f"nodePools[{second}].nodes: {one!r} is also in nodePools[{first}]; keep one")


def _check_agents(settings: ClusterSettings) -> None:
    """Nodes that the stack labels as sharing need an agent, unless something else deploys the agents."""
    selectors = [plugin.node_selector for plugin in settings.device_plugins]
    for index, pool in enumerate(settings.node_pools):
        mode, not_sharing = mode_of(pool.labels)
        if not modes_in(pool.labels) or not_sharing:
            continue
        if selectors and not any(_may_select(each, pool.labels) for each in selectors):
            raise ConfigError(
                f"nodePools[{index}].labels: {_labels(pool.labels)}, mode {mode}, but no nodeSelector of "
                "devicePlugins selects these nodes, so they would have no agent; add an entry"
            )


def _labels(labels: Mapping[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in labels.items())


def _may_select(selector: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    """Whether nodes with these labels can match; they may have further labels, but no other mode."""
    known = {key: value for key, value in selector.items() if key in labels or key in MODE_LABELS}
    return known.items() <= labels.items()


def _check_installer(installer: Installer, extender: Extender) -> None:
    if extender.exposure is Exposure.SIDECAR:
        raise ConfigError(
            f"installer: extender.exposure {Exposure.SIDECAR} does not change the default scheduler; "
            "remove installer"
        )
    if extender.tls_secret:
        raise ConfigError(
            "installer: the Job has no client certificate for extender.tlsSecret; "
            "run gpushare scheduler-manifest on the nodes, or remove extender.tlsSecret"
        )
    if extender.exposure is Exposure.CLUSTER_IP and not installer.url:
        raise ConfigError(
            f"installer.url: missing; with extender.exposure {Exposure.CLUSTER_IP} there is no NodePort"
        )
    scheme = "https" if tls_secret(extender) else "http"
    if installer.url and not installer.url.startswith(f"{scheme}://"):
        example = DEFAULT_URL.replace("http", scheme, 1)
        raise ConfigError(
            f"installer.url: {installer.url!r} is not allowed with extender.tls: {extender.tls}; "
            f"use one like {example}"
        )
    if installer.url:
        check_url("installer.url", installer.url)


def _check_isolation(settings: ClusterSettings) -> None:
    """Checks ``isolation`` and ``mps``, and that they are set if a pool needs them."""
    if settings.isolation:
        check_options("isolation", settings.isolation)
        _check_folder(settings.isolation.folder)
    else:
        _check_limited_pools(settings.device_plugins)
    if settings.mps:
        check_options("mps", settings.mps)
    else:
        _check_mps_pools(settings.device_plugins)


def _check_folder(folder: str) -> None:
    """A container cannot have the root folder of its node in place of its own."""
    if not folder.strip("/."):
        raise ConfigError(
            f"isolation.folder: {folder!r} is not a folder for the library alone; name one in it"
        )


def _check_limited_pools(plugins: tuple[DevicePlugin, ...]) -> None:
    """Without the library on their nodes, the node agents would reject every pod."""
    for index, plugin in enumerate(plugins):
        mode, _ = mode_of(plugin.node_selector)
        if mode in LIMITING and plugin.node_selector.get(LABEL_NO_ISOLATION) != "true":
            raise ConfigError(
                f"isolation: missing; devicePlugins[{index}].nodeSelector {_labels(plugin.node_selector)} "
                f"enforces limits; set it to {{}}, or also select nodes with {LABEL_NO_ISOLATION}=true"
            )


def _check_mps_pools(plugins: tuple[DevicePlugin, ...]) -> None:
    """Without control daemons on their nodes, the node agents would reject every pod."""
    for index, plugin in enumerate(plugins):
        mode, _ = mode_of(plugin.node_selector)
        if mode is Mode.MPS:
            raise ConfigError(
                f"mps: missing; devicePlugins[{index}].nodeSelector {_labels(plugin.node_selector)} shares "
                "GPUs with MPS; set it to {}"
            )


def _check_tenant(where: str, tenant: Tenant) -> None:
    if tenant.name.startswith(_RESERVED):
        raise ConfigError(
            f"{where}.name: {tenant.name!r} is reserved for Kubernetes; use a name that does not start "
            f"with {', '.join(_RESERVED)}"
        )
