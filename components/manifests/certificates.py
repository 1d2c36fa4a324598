"""The certificates between kube-scheduler and the extender, made and renewed in the cluster.

A Job and a CronJob create and fill the Secrets (``gpushare certificates``), so that no private key is in the
state of Pulumi or in a rendered file. Their account may do that with these Secrets only.
"""

import hashlib
import json
from typing import Final

from components.config_extender import Exposure, Extender, TlsMode
from components.manifests.parts import (
    Object,
    account,
    container_security,
    filling,
    labels,
    metadata,
    non_root_security,
    placement,
    role,
    role_binding,
    sizes,
)
from gpushare.contract import AUTHORITY_SECRET, CERTIFICATES_NAME, CLIENT_TLS_SECRET, EXTENDER_TLS_SECRET
from gpushare.kubescheduler.config import KubernetesVersion

_NAME: Final = CERTIFICATES_NAME
_LABELS: Final = labels(_NAME)
_SECRETS: Final = (AUTHORITY_SECRET, EXTENDER_TLS_SECRET, CLIENT_TLS_SECRET)
_SCHEDULE: Final = "17 3 * * *"
"""Daily: a certificate is due for four months before it expires."""
_DEADLINE_S: Final = 3600
"""Ends a run that hangs, but not one whose image is pulled slowly."""
_DIGITS: Final = 8
_FIRST_CRON_JOB_V1: Final = KubernetesVersion(1, 21)


def tls_secret(settings: Extender) -> str | None:
    """Name of the Secret with the certificate of the extender; None if its port is plain HTTP."""
    return settings.tls_secret or (EXTENDER_TLS_SECRET if makes_certificates(settings) else None)


def makes_certificates(settings: Extender) -> bool:
    """Whether the stack makes the certificates. One sidecar is reached on loopback only and has none."""
    is_alone = settings.exposure is Exposure.SIDECAR and settings.replicas == 1
    return settings.tls is not TlsMode.NONE and not settings.tls_secret and not is_alone


def objects(settings: Extender, version: KubernetesVersion) -> list[Object]:
    """The account that may fill the Secrets, and what fills them; nothing without certificates."""
    if not makes_certificates(settings):
        return []
    return [
        account(_NAME),
        role(_NAME, [filling(*_SECRETS)]),
        role_binding(_NAME, _NAME, _NAME),
        _first_job(settings, version),
        _cron_job(settings, version),
    ]


def named_by_content(manifest: Object) -> Object:
    """The Job with a digest of its final content in its name, because the pods of a Job cannot be changed.

    All other objects are returned as they are.
    """
    meta = manifest["metadata"]
    if (manifest["kind"], meta["name"]) != ("Job", _NAME):
        return manifest
    text = json.dumps(manifest["spec"], sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
    return manifest | {"metadata": meta | {"name": f"{_NAME}-{digest}"}}


def _first_job(settings: Extender, version: KubernetesVersion) -> Object:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata(_NAME, _LABELS),
        "spec": _job(settings, version),
    }


def _cron_job(settings: Extender, version: KubernetesVersion) -> Object:
    return {
        "apiVersion": "batch/v1" if version >= _FIRST_CRON_JOB_V1 else "batch/v1beta1",
        "kind": "CronJob",
        "metadata": metadata(_NAME, _LABELS),
        "spec": {
            "schedule": _SCHEDULE,
            "concurrencyPolicy": "Forbid",
            "successfulJobsHistoryLimit": 1,
            "failedJobsHistoryLimit": 1,
            "jobTemplate": {"spec": _job(settings, version)},
        },
    }


def _job(settings: Extender, version: KubernetesVersion) -> Object:
    return {
        "template": {"metadata": {"labels": dict(_LABELS)}, "spec": _pod(settings, version)},
        "activeDeadlineSeconds": _DEADLINE_S,
    }


def _pod(settings: Extender, version: KubernetesVersion) -> Object:
    return {
        "serviceAccountName": _NAME,
        "restartPolicy": "OnFailure",
        **placement(settings.tolerations, settings.priority_class),
        "securityContext": non_root_security(version),
        "containers": [
            {
                "name": _NAME,
                "image": settings.certificates_image,
                "command": ["gpushare", "certificates"],
                "terminationMessagePolicy": "FallbackToLogsOnError",
                "resources": sizes("100m", "128Mi"),
                "securityContext": container_security(),
            }
        ],
    }
