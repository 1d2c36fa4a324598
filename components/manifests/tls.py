"""Which Secret has the certificate of the extender.

The certificates themselves are made in the cluster; no private key is in a manifest.
"""

from components.config_extender import Exposure, Extender, Tls
from gpushare.contract import EXTENDER_TLS_SECRET


def tls_secret(settings: Extender) -> str | None:
    """Name of the Secret with the certificate of the extender; None if its port is plain HTTP."""
    return settings.tls_secret or (EXTENDER_TLS_SECRET if makes_certificates(settings) else None)


def makes_certificates(settings: Extender) -> bool:
    """Whether the stack makes the certificates. One sidecar is reached on loopback only and has none."""
    is_alone = settings.exposure is Exposure.SIDECAR and settings.replicas == 1
    return settings.tls is not Tls.NONE and not settings.tls_secret and not is_alone
