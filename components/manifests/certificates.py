"""The certificates between kube-scheduler and the extender, made and renewed in the cluster."""

from typing import Final

from components.config_extender import Exposure, Extender, TlsMode
from components.manifests.certificate_jobs import CertificateJob, rights, runs
from components.manifests.parts import Object
from gpushare.contract import AUTHORITY_SECRET, CERTIFICATES_NAME, CLIENT_TLS_SECRET, EXTENDER_TLS_SECRET
from gpushare.kubescheduler.config import KubernetesVersion

_SCHEDULE: Final = "17 3 * * *"
"""Daily: a certificate is due for four months before it expires."""


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
    job = CertificateJob(
        name=CERTIFICATES_NAME,
        secrets=(AUTHORITY_SECRET, EXTENDER_TLS_SECRET, CLIENT_TLS_SECRET),
        image=settings.certificates_image,
        schedule=_SCHEDULE,
        tolerations=settings.tolerations,
        priority_class=settings.priority_class,
    )
    return [*rights(job), *runs(job, version)]
