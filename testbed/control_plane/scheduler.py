"""The specification of kube-scheduler, and its configuration file.

What does not belong here: the flags of the scheduler (``testbed.control_plane.commands``).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from gpushare.errors import ConfigError
from testbed.programs.binaries import release

LEGACY = "1.22"
_API = "kubescheduler.config.k8s.io/v1"


@dataclass(frozen=True)
class SchedulerSpec:
    """The version of the scheduler, and how it calls extenders.

    ``version`` is the release of the testbed, "1.22" (the last one with a Policy file) or None for no
    scheduler. ``extenders`` are copied to the configuration unchanged, in the format of that version.
    ``config`` overrides all other fields: for 1.22 a Policy, which is used byte for byte, otherwise a
    KubeSchedulerConfiguration, in which only the kubeconfig is replaced.
    ``backoff_s`` and ``max_backoff_s`` are whole seconds; they and ``gates``, the feature gates to switch on,
    are not for 1.22.
    """

    version: str | None = field(default_factory=release)
    extenders: Sequence[Mapping[str, Any]] = ()
    config: str | None = None
    backoff_s: int = 1
    max_backoff_s: int = 2
    gates: Sequence[str] = ()

    def __post_init__(self) -> None:
        if self.version not in (release(), LEGACY, None):
            raise ConfigError(
                f"scheduler version {self.version!r} is unknown: use {release()!r}, {LEGACY!r} or None"
            )

    @property
    def legacy(self) -> bool:
        """Whether this scheduler reads a Policy file."""
        return self.version == LEGACY

    @property
    def tool(self) -> str:
        """Name of the binary in ``testbed.programs.binaries``."""
        return "kube-scheduler-1.22" if self.legacy else "kube-scheduler"

    def text(self, kubeconfig: Path) -> str:
        """Return the configuration file; raise ConfigError for an invalid ``config``."""
        if self.legacy:
            return self.config if self.config is not None else _policy(self.extenders)
        document = _parsed(self.config) if self.config is not None else self._configuration()
        connection = dict(document.get("clientConnection") or {})
        connection["kubeconfig"] = str(kubeconfig)
        return json.dumps({**document, "clientConnection": connection}, indent=1)

    def _configuration(self) -> dict[str, Any]:
        return {
            "apiVersion": _API,
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"qps": 5000, "burst": 5000},
            "leaderElection": {"leaderElect": False},
            "percentageOfNodesToScore": 100,
            "podInitialBackoffSeconds": self.backoff_s,
            "podMaxBackoffSeconds": self.max_backoff_s,
            "extenders": [dict(extender) for extender in self.extenders],
        }


def _policy(extenders: Sequence[Mapping[str, Any]]) -> str:
    document = {
        "kind": "Policy",
        "apiVersion": "v1",
        "extenders": [dict(extender) for extender in extenders],
    }
    return json.dumps(document, indent=1)


def _parsed(config: str) -> dict[str, Any]:
    try:
        document = yaml.safe_load(config)
    except yaml.YAMLError as error:
        raise ConfigError(f"the scheduler configuration is not YAML: {error}") from error
    if not isinstance(document, dict):
        raise ConfigError("the scheduler configuration is not one YAML object: pass the file's text")
    return document
