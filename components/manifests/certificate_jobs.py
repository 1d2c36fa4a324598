"""What makes certificates in the cluster: an account that may fill its Secrets, a first Job and a CronJob.

Which certificates, and for whom, is decided by the callers. No private key is in the state of Pulumi or in a
rendered file.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

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
from gpushare.contract import CERTIFICATES_NAME, METRICS_CERTIFICATES_NAME
from gpushare.kubescheduler.config import KubernetesVersion

_NAMES: Final = (CERTIFICATES_NAME, METRICS_CERTIFICATES_NAME)
_DEADLINE_S: Final = 3600
"""Ends a run that hangs, but not one whose image is pulled slowly."""
_DIGITS: Final = 8
_FIRST_CRON_JOB_V1: Final = KubernetesVersion(1, 21)


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateJob:
    """A run of ``gpushare certificates``, at once and by a schedule."""

    name: str
    """Name of all objects, and of the account."""
    secrets: Sequence[str]
    """The Secrets that it fills."""
    image: str
    flags: Sequence[str] = ()
    schedule: str
    tolerations: Sequence[Any]
    priority_class: str


def rights(job: CertificateJob) -> list[Object]:
    """The account that may fill the Secrets."""
    return [
        account(job.name),
        role(job.name, [filling(*job.secrets)]),
        role_binding(job.name, job.name, job.name),
    ]


def runs(job: CertificateJob, version: KubernetesVersion) -> list[Object]:
    """The first Job and the CronJob."""
    return [_first_job(job, version), _cron_job(job, version)]


def named_by_content(manifest: Object) -> Object:
    """The Job with a digest of its final content in its name, because the pods of a Job cannot be changed.

    All other objects are returned as they are.
    """
    meta = manifest["metadata"]
    if manifest["kind"] != "Job" or meta["name"] not in _NAMES:
        return manifest
    text = json.dumps(manifest["spec"], sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
    return manifest | {"metadata": meta | {"name": f"{meta['name']}-{digest}"}}


def _first_job(job: CertificateJob, version: KubernetesVersion) -> Object:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata(job.name, labels(job.name)),
        "spec": _spec(job, version),
    }


def _cron_job(job: CertificateJob, version: KubernetesVersion) -> Object:
    return {
        "apiVersion": "batch/v1" if version >= _FIRST_CRON_JOB_V1 else "batch/v1beta1",
        "kind": "CronJob",
        "metadata": metadata(job.name, labels(job.name)),
        "spec": {
            "schedule": job.schedule,
            "concurrencyPolicy": "Forbid",
            "successfulJobsHistoryLimit": 1,
            "failedJobsHistoryLimit": 1,
            "jobTemplate": {"spec": _spec(job, version)},
        },
    }


def _spec(job: CertificateJob, version: KubernetesVersion) -> Object:
    return {
        "template": {"metadata": {"labels": labels(job.name)}, "spec": _pod(job, version)},
        "activeDeadlineSeconds": _DEADLINE_S,
    }


def _pod(job: CertificateJob, version: KubernetesVersion) -> Object:
    return {
        "serviceAccountName": job.name,
        "restartPolicy": "OnFailure",
        **placement(job.tolerations, job.priority_class),
        "securityContext": non_root_security(version),
        "containers": [
            {
                "name": job.name,
                "image": job.image,
                "command": ["gpushare", "certificates", *job.flags],
                "terminationMessagePolicy": "FallbackToLogsOnError",
                "resources": sizes("100m", "128Mi"),
                "securityContext": container_security(),
            }
        ],
    }
