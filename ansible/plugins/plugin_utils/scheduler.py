"""The configuration of kube-scheduler from the variables of the role.

What does not belong here: the edit of its static pod (``gpushare.kubescheduler``).
"""

from __future__ import annotations

import json
from typing import Any

from ansible_collections.gpushare.nodes.plugins.plugin_utils.gpushare.kubescheduler.config import (
    DEFAULT_URL,
    DEFAULT_WEIGHT,
    ExtenderConfig,
    SchedulerOptions,
    Tls,
    parse_version,
    render,
)
from ansible_collections.gpushare.nodes.plugins.plugin_utils.gpushare.kubescheduler.plan import mounted_tls

Object = dict[str, Any]
_TLS = ("ca_file", "cert_file", "key_file", "server_name")


def configuration(extender: Object, options: Object) -> str:
    """Return the configuration of a second scheduler: ``kubernetes_version``, ``name``, ``kubeconfig``."""
    names = SchedulerOptions(name=options["name"], kubeconfig=options["kubeconfig"] or None)
    version = parse_version(str(options["kubernetes_version"]))
    document = render(extender_config(extender), version, options=names)
    return json.dumps(document, indent=2) + "\n"


def extender_config(extender: Object) -> ExtenderConfig:
    """Convert ``url``, ``weight``, ``http_timeout_s`` and ``tls``, a mapping of paths on the host."""
    return ExtenderConfig(
        extender.get("url", DEFAULT_URL),
        weight=int(extender.get("weight", DEFAULT_WEIGHT)),
        http_timeout_s=int(extender.get("http_timeout_s", 5)),
        tls=tls_of(extender),
    )


def tls_of(extender: Object) -> Tls | None:
    """Return the TLS files, None without any. Raises ConfigError for one that is not in the pod."""
    given = extender.get("tls") or {}
    return mounted_tls(*(given.get(name) for name in _TLS))
