"""The configuration that makes kube-scheduler call the extender, as plain dicts.

The command line, the installer, the sidecar and the docs all use this renderer. What does not belong here:
files, flags, and where the scheduler runs.

===========  ==========  ==========================================
Kubernetes   Policy v1   KubeSchedulerConfiguration
===========  ==========  ==========================================
1.16, 1.17   yes         none with extenders
1.18         yes         v1alpha2
1.19-1.21    yes         v1beta1
1.22         yes         v1beta2
1.23, 1.24   no          v1beta3
1.25 and on  no          v1
===========  ==========  ==========================================
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from gpushare.contract import EXTENDER_NODE_PORT, EXTENDER_PREFIX, MANAGED_RESOURCES, RESOURCE_MEM
from gpushare.errors import ConfigError
from gpushare.model.urls import is_http_url


def node_url(address: str, scheme: str = "http") -> str:
    """The URL of the extender's NodePort at an address of a node."""
    host = f"[{address}]" if ":" in address else address
    return f"{scheme}://{host}:{EXTENDER_NODE_PORT}{EXTENDER_PREFIX}"


def version_url(url_prefix: str) -> str:
    """The URL at which the extender says its version, to ask whether it answers."""
    return f"{url_prefix.rstrip('/').removesuffix(EXTENDER_PREFIX)}/version"


DEFAULT_URL: Final = node_url("127.0.0.1")
DEFAULT_WEIGHT: Final = 5
"""Scores reach 10 × weight × 10. The built-in scores that spread pods, without regard to GPUs, add up to 400;
with a weight below 5 they could outvote the extender."""
DEFAULT_SCHEDULER: Final = "default-scheduler"
GROUP: Final = "kubescheduler.config.k8s.io/"
KIND: Final = "KubeSchedulerConfiguration"
FULL_SAMPLE: Final = 100
"""Percent of nodes; with less, the extender may see only full nodes."""
_OLDEST: Final = 16
_LAST_POLICY: Final = 22
API_VERSIONS: Final = ((25, "v1"), (23, "v1beta3"), (22, "v1beta2"), (19, "v1beta1"), (18, "v1alpha2"))
_VERSION: Final = re.compile(r"v?(\d{1,3})\.(\d{1,3})(?!\d).*", re.ASCII)
_NS_PER_S: Final = 1_000_000_000


class KubernetesVersion(NamedTuple):
    """Major and minor; patch releases never change the configuration format."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


class Format(StrEnum):
    """``AUTO`` is a Policy for versions without extenders in KubeSchedulerConfiguration, else the latter."""

    AUTO = "auto"
    POLICY = "policy"
    COMPONENT_CONFIG = "component-config"


@dataclass(frozen=True, slots=True)
class Tls:
    """TLS files by the paths that the scheduler uses: trusted CA, client certificate and key."""

    ca_file: str
    cert_file: str | None = None
    key_file: str | None = None
    server_name: str | None = None

    def __post_init__(self) -> None:
        if not self.ca_file:
            raise ConfigError("TLS needs a CA file: without one kube-scheduler does not verify the extender")
        if bool(self.cert_file) != bool(self.key_file):
            raise ConfigError("a client certificate needs both a certificate file and a key file")


@dataclass(frozen=True, slots=True)
class ExtenderConfig:
    """URL and calls of the extender. A verb that is None is not called."""

    url_prefix: str = DEFAULT_URL
    preempt_verb: str | None = "preempt"
    prioritize_verb: str | None = "prioritize"
    weight: int = DEFAULT_WEIGHT
    tls: Tls | None = None
    http_timeout_s: int | None = 5
    managed_resources: tuple[str, ...] = MANAGED_RESOURCES

    def __post_init__(self) -> None:
        _check_url(self.url_prefix, self.tls)
        if self.weight < 1:
            raise ConfigError(f"weight {self.weight}: kube-scheduler requires 1 or more")
        if self.http_timeout_s is not None and self.http_timeout_s < 1:
            raise ConfigError(f"HTTP timeout {self.http_timeout_s} s: must be 1 or more")


def minimal(url_prefix: str = DEFAULT_URL) -> ExtenderConfig:
    """The configuration of the ACK documentation: filter and bind for the memory resource only."""
    return ExtenderConfig(
        url_prefix,
        preempt_verb=None,
        prioritize_verb=None,
        http_timeout_s=None,
        managed_resources=(RESOURCE_MEM,),
    )


@dataclass(frozen=True, slots=True)
class SchedulerOptions:
    """Other fields of a KubeSchedulerConfiguration; a Policy has none of them.

    The extender sees only nodes that the scheduler samples: with less than 100 percent of a large cluster,
    the sample may have only full nodes.
    """

    name: str | None = None
    kubeconfig: str | None = None
    percentage_of_nodes: int = FULL_SAMPLE
    leader_elect: bool = True

    def __post_init__(self) -> None:
        if not 1 <= self.percentage_of_nodes <= FULL_SAMPLE:
            raise ConfigError(f"percentage of nodes {self.percentage_of_nodes}: must be 1 to {FULL_SAMPLE}")


DEFAULT_OPTIONS: Final = SchedulerOptions()


def parse_version(text: str) -> KubernetesVersion:
    """``1.36``, ``v1.36.3`` or ``v1.16.6-aliyun.1``. Raises ConfigError for an unsupported version."""
    match = _VERSION.fullmatch(text.strip())
    if match is None:
        raise ConfigError(f"Kubernetes version {text!r} is not like 1.36")
    version = KubernetesVersion(int(match[1]), int(match[2]))
    if version.major != 1 or version.minor < _OLDEST:
        raise ConfigError(f"Kubernetes {version} is not supported: 1.{_OLDEST} or later is needed")
    return version


def reads_policy(version: KubernetesVersion) -> bool:
    """Whether this version has ``--policy-config-file``."""
    return version.minor <= _LAST_POLICY


def render(
    extender: ExtenderConfig,
    version: KubernetesVersion,
    *,
    options: SchedulerOptions = DEFAULT_OPTIONS,
    form: Format = Format.AUTO,
) -> dict[str, object]:
    """The document for this version, in the newest API version that it reads.

    Raises ConfigError if the version or the options do not support the form.
    """
    api = next((name for first, name in API_VERSIONS if version.minor >= first), None)
    if form is Format.POLICY or (form is Format.AUTO and api is None):
        return _policy(extender, version, options)
    if api is None:
        raise ConfigError(
            f"Kubernetes {version} has no KubeSchedulerConfiguration with extenders: use a Policy"
        )
    return _component_config(extender, api, options)


def _policy(
    extender: ExtenderConfig, version: KubernetesVersion, options: SchedulerOptions
) -> dict[str, object]:
    if not reads_policy(version):
        raise ConfigError(f"Kubernetes {version} reads no Policy (1.{_LAST_POLICY} was the last)")
    if options.name or options.kubeconfig or not options.leader_elect:
        raise ConfigError(
            "a Policy has no scheduler name, kubeconfig or leader election: use kube-scheduler's flags"
        )
    return {"kind": "Policy", "apiVersion": "v1", "extenders": [extender_entry(extender, legacy=True)]}


def _component_config(extender: ExtenderConfig, api: str, options: SchedulerOptions) -> dict[str, object]:
    client = {"clientConnection": {"kubeconfig": options.kubeconfig}} if options.kubeconfig else {}
    profiles = {"profiles": [{"schedulerName": options.name}]} if options.name else {}
    return {
        "apiVersion": f"{GROUP}{api}",
        "kind": KIND,
        **client,
        "leaderElection": _leader_election(options),
        "percentageOfNodesToScore": options.percentage_of_nodes,
        **profiles,
        # v1alpha2 uses the extender type of Policy, with its spelling and nanoseconds.
        "extenders": [extender_entry(extender, legacy=api == "v1alpha2")],
    }


def _leader_election(options: SchedulerOptions) -> dict[str, object]:
    """An additional scheduler needs its own Lease, or it waits forever for that of the default one."""
    own = options.leader_elect and options.name not in (None, DEFAULT_SCHEDULER)
    return {"leaderElect": options.leader_elect} | ({"resourceName": options.name} if own else {})


def extender_entry(config: ExtenderConfig, *, legacy: bool = False) -> dict[str, object]:
    """One entry of ``extenders``; ``legacy`` is the spelling of a Policy."""
    entry: dict[str, object] = {
        "urlPrefix": config.url_prefix,
        "filterVerb": "filter",
        "preemptVerb": config.preempt_verb,
        "prioritizeVerb": config.prioritize_verb,
        "weight": config.weight if config.prioritize_verb else None,
        "bindVerb": "bind",
        "enableHttps" if legacy else "enableHTTPS": urlsplit(config.url_prefix).scheme == "https",
        "tlsConfig": _tls(config.tls) if config.tls else None,
        "httpTimeout": _timeout(config.http_timeout_s, legacy=legacy),
        "nodeCacheCapable": True,
        "managedResources": [
            {"name": name, "ignoredByScheduler": False} for name in config.managed_resources
        ],
        # A failure of an extender that binds would otherwise bind pods without a GPU.
        "ignorable": False,
    }
    return {key: value for key, value in entry.items() if value is not None}


def _timeout(seconds: int | None, *, legacy: bool) -> int | str | None:
    if seconds is None:
        return None
    return seconds * _NS_PER_S if legacy else f"{seconds}s"


def _tls(tls: Tls) -> dict[str, str]:
    files = {
        "caFile": tls.ca_file,
        "certFile": tls.cert_file,
        "keyFile": tls.key_file,
        "serverName": tls.server_name,
    }
    return {key: value for key, value in files.items() if value}


def _check_url(url: str, tls: Tls | None) -> None:
    if not is_http_url(url):
        raise ConfigError(f"URL {url!r} is not like {DEFAULT_URL}")
    scheme = urlsplit(url).scheme
    if scheme == "https" and tls is None:
        raise ConfigError(
            f"URL {url!r} needs a CA file: without one kube-scheduler does not verify the extender"
        )
    if scheme == "http" and tls is not None:
        raise ConfigError(f"TLS files are set, but the URL {url!r} is not https")
