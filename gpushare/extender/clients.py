"""Which clients may call the verbs of the scheduler's port."""

from collections.abc import Iterable
from ipaddress import ip_address
from typing import Final

import structlog

from gpushare.extender.metrics import ExtenderMetrics
from gpushare.runtime.certificates import PeerCertificate

log = structlog.get_logger()

OPEN_PORT: Final = (
    "every host and pod that reaches the scheduler's port can bind pods: it has no TLS and is not on "
    "loopback; set --tls-cert, --tls-key and --client-ca, or --host 127.0.0.1"
)


def is_open(host: str, *, tls: bool) -> bool:
    """Whether the port serves requests of other hosts without authentication."""
    return not tls and not _is_loopback(host)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


class Clients:
    """Checks the names of clients and reports when their certificates expire.

    On a port without TLS clients have no certificate, and everybody may call; TLS requires one.
    """

    def __init__(self, names: Iterable[str], metrics: ExtenderMetrics) -> None:
        self._names = tuple(names)
        self._metrics = metrics
        self._seen: dict[str, PeerCertificate] = {}

    def rejection(self, certificate: PeerCertificate | None) -> str:
        """Why the holder of the certificate may not call; empty if it may."""
        if certificate is None:
            return ""
        name = next((each for each in certificate.names if each in self._names), None)
        if name is None:
            client = " and ".join(map(repr, certificate.names)) or "without a name"
            return (
                f"the client certificate {client} may not call the extender: "
                f"allowed are {', '.join(self._names)} (flag --client-name)"
            )
        if self._seen.get(name) != certificate:
            self._seen[name] = certificate
            self._metrics.certificate_expiry.labels(name).set(certificate.expires_at)
        return ""
