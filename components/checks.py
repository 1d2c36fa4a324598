"""Rules that settings must keep before anything is rendered or touched. Pure; the first breach is raised.

Errors name the key, the value and what is allowed. Types and vocabularies are ``components.decode``'s.
"""

import re
from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Final

from components.config import DeviceListStrategy, DevicePlugin, Exposure, Extender, Settings, Tenant
from gpushare.contract import LABEL_CGPU, LABEL_GPUSHARE, LABEL_MODE
from gpushare.errors import ConfigError
from gpushare.model.objects import mode_of
from gpushare.model.scheduler_config import DEFAULT_SCHEDULER, KubernetesVersion

MODE_LABELS: Final = (LABEL_GPUSHARE, LABEL_CGPU, LABEL_MODE)
_REPLICAS: Final = (1, 3)
_FIRST_SIDECAR: Final = KubernetesVersion(1, 18)
"""Older schedulers have extenders in a Policy only, which has no place for a scheduler's name."""
_FIRST_CDI: Final = KubernetesVersion(1, 29)
"""The first kubelet that takes CDI names from device plugins without a feature gate."""
_MAX_NAME: Final = 63
_MAX_POOL: Final = 37
"""The names of a pool's DaemonSets are values of labels too."""
_TAKEN: Final = ("default", "kube-", "system-")
"""How the names of Kubernetes' own namespaces and priority classes begin."""
_MAX_PRIORITY: Final = 1_000_000_000
"""What is above belongs to Kubernetes itself."""

_DIGEST: Final = re.compile(r"[^\s@]+@sha256:[0-9a-f]{64}")
_TAG: Final = re.compile(r"[^\s@]+:(?!latest$)[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_CPU: Final = re.compile(r"[1-9][0-9]*m?|[0-9]+\.[0-9]*[1-9]")
_MEMORY: Final = re.compile(r"[1-9][0-9]*(Ki|Mi|Gi)")
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_LABEL_WORD: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_LABEL_PREFIX: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


def check(settings: Settings) -> Settings:
    """The settings themselves. Raises ConfigError where they break a rule."""
    for where, image in _images(settings):
        _check_image(where, image, tags=settings.allow_tags)
    _check_extender(settings.extender, settings.kubernetes_version)
    for index, plugin in enumerate(settings.device_plugins):
        _check_plugin(f"devicePlugins[{index}]", plugin, settings.kubernetes_version)
    _check_pools(settings.device_plugins)
    for index, tenant in enumerate(settings.tenants):
        _check_tenant(f"tenants[{index}]", tenant)
    _check_unlike("tenants", [tenant.name for tenant in settings.tenants])
    return settings


def _images(settings: Settings) -> Iterable[tuple[str, str]]:
    yield "extender.image", settings.extender.image
    if settings.extender.scheduler:
        yield "extender.scheduler.image", settings.extender.scheduler.image
    for index, plugin in enumerate(settings.device_plugins):
        yield f"devicePlugins[{index}].image", plugin.image


def _check_image(where: str, image: str, *, tags: bool) -> None:
    if _DIGEST.fullmatch(image) or (tags and _TAG.fullmatch(image)):
        return
    if tags:
        raise ConfigError(f"{where}: {image!r} has no digest and no tag other than latest")
    raise ConfigError(f"{where}: {image!r} has no digest (name@sha256:…); allowTags: true allows tags")


def _check_extender(extender: Extender, version: KubernetesVersion) -> None:
    _check_size("extender", extender.cpu, extender.memory)
    if extender.replicas not in _REPLICAS:
        raise ConfigError(f"extender.replicas: {extender.replicas} is not allowed; use 1 or 3")
    if extender.replicas > 1 and not extender.lease:
        raise ConfigError(
            f"extender.lease: false does not go with {extender.replicas} replicas, of which the holder of "
            "the Lease binds; use true, or extender.replicas: 1"
        )
    if extender.tls_secret is not None:
        _check_name("extender.tlsSecret", extender.tls_secret)
    if extender.exposure is Exposure.SIDECAR:
        _check_sidecar(extender, version)
    elif extender.scheduler:
        raise ConfigError(
            f"extender.scheduler: there is none with exposure {extender.exposure}; use {Exposure.SIDECAR}"
        )


def _check_sidecar(extender: Extender, version: KubernetesVersion) -> None:
    where = f"extender.exposure: {Exposure.SIDECAR}"
    if not extender.scheduler:
        raise ConfigError(
            f"{where} needs extender.scheduler.image, a kube-scheduler of the cluster's version"
        )
    if extender.replicas > 1:
        raise ConfigError(
            f"{where} serves on loopback, where other replicas cannot pass binds on; use extender.replicas: 1"
        )
    if extender.tls_secret:
        raise ConfigError(f"{where} is reached by its own pod only; leave out extender.tlsSecret")
    _check_since(where, version, _FIRST_SIDECAR)
    _check_name("extender.scheduler.name", extender.scheduler.name)
    if extender.scheduler.name == DEFAULT_SCHEDULER:
        raise ConfigError(f"extender.scheduler.name: {DEFAULT_SCHEDULER!r} is the cluster's; use another")
    _check_size("extender.scheduler", extender.scheduler.cpu, extender.scheduler.memory)


def _check_plugin(where: str, plugin: DevicePlugin, version: KubernetesVersion) -> None:
    _check_size(where, plugin.cpu, plugin.memory)
    if plugin.name:
        _check_name(f"{where}.name", plugin.name, longest=_MAX_POOL)
    _check_selector(f"{where}.nodeSelector", plugin.node_selector)
    if plugin.device_list_strategy is DeviceListStrategy.CDI:
        _check_since(f"{where}.deviceListStrategy: {DeviceListStrategy.CDI}", version, _FIRST_CDI)
    for key, path in (("kubeletRoot", plugin.kubelet_root), ("kubeconfig", plugin.kubeconfig)):
        if path is not None and not path.startswith("/"):
            raise ConfigError(f"{where}.{key}: {path!r} is not an absolute path")
    if plugin.evict_recover and not modes_in(plugin.node_selector):
        raise ConfigError(
            f"{where}.evictRecover: true needs a label in nodeSelector that can be switched off; "
            f"use one of {', '.join(MODE_LABELS)}"
        )


def modes_in(selector: Mapping[str, str]) -> list[str]:
    """Which of the labels that put a node into a mode the selector names."""
    return [label for label in MODE_LABELS if label in selector]


def _check_selector(where: str, selector: Mapping[str, str]) -> None:
    if not selector:
        raise ConfigError(f"{where}: empty, which is every node; name a label such as {LABEL_GPUSHARE}")
    for key, value in selector.items():
        prefix, slash, word = key.rpartition("/")
        if not _LABEL_WORD.fullmatch(word) or (slash and not _LABEL_PREFIX.fullmatch(prefix)):
            raise ConfigError(f"{where}: {key!r} is no label; use names like example.com/pool")
        if value and not _LABEL_WORD.fullmatch(value):
            raise ConfigError(
                f"{where}.{key}: {value!r} is no label's value; "
                f"use up to {_MAX_NAME} letters, digits, '-', '_' and '.'"
            )
    modes = [f"{label}={selector[label]}" for label in modes_in(selector)]
    if len(modes) > 1:
        raise ConfigError(f"{where}: two modes on one pool, {' and '.join(modes)}; keep one")
    _, closed = mode_of(selector)
    if closed:
        raise ConfigError(f"{where}: {closed}, so the agent would serve no node of this pool")


def _check_pools(plugins: tuple[DevicePlugin, ...]) -> None:
    _check_unlike("devicePlugins", [plugin.name for plugin in plugins])
    for (first, one), (second, other) in combinations(enumerate(plugins), 2):
        if not _apart(one.node_selector, other.node_selector):
            raise ConfigError(
                f"devicePlugins[{second}].nodeSelector: {dict(other.node_selector)} and that of "
                f"devicePlugins[{first}], {dict(one.node_selector)}, can name the same node; "
                "let them differ in the value of one label"
            )


def _apart(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Whether no node can have the labels of both."""
    return any(one[key] != other[key] for key in one.keys() & other.keys())


def _check_tenant(where: str, tenant: Tenant) -> None:
    _check_name(f"{where}.name", tenant.name)
    if tenant.name.startswith(_TAKEN):
        raise ConfigError(
            f"{where}.name: {tenant.name!r} is or may be Kubernetes' own; use a name that does not begin "
            f"with {', '.join(_TAKEN)}"
        )
    if tenant.gpu_mem < 0:
        raise ConfigError(f"{where}.gpuMem: {tenant.gpu_mem} is not allowed; use 0 or more")
    if tenant.priority is not None and abs(tenant.priority) > _MAX_PRIORITY:
        raise ConfigError(
            f"{where}.priority: {tenant.priority} is not allowed; use {-_MAX_PRIORITY} to {_MAX_PRIORITY}"
        )


def _check_unlike(where: str, names: list[str]) -> None:
    for index, name in enumerate(names):
        if name in names[:index]:
            raise ConfigError(f"{where}[{index}].name: {name!r} is there twice; give each its own name")


def _check_name(where: str, name: str, *, longest: int = _MAX_NAME) -> None:
    if len(name) > longest or not _NAME.fullmatch(name):
        raise ConfigError(f"{where}: {name!r} is no name; use up to {longest} small letters, digits and '-'")


def _check_size(where: str, cpu: str, memory: str) -> None:
    if not _CPU.fullmatch(cpu):
        raise ConfigError(f"{where}.cpu: {cpu!r} is not a number of cores; use 500m or 1")
    if not _MEMORY.fullmatch(memory):
        raise ConfigError(f"{where}.memory: {memory!r} is not an amount; use Ki, Mi or Gi, like 512Mi")


def _check_since(where: str, version: KubernetesVersion, first: KubernetesVersion) -> None:
    if version < first:
        raise ConfigError(f"{where} needs Kubernetes {first} or later, kubernetesVersion is {version}")
