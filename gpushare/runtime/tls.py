"""TLS contexts for mutual authentication."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpushare.errors import ConfigError


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Paths of our certificate and key, and of the CA of the peers."""

    cert: str
    key: str
    client_ca: str


def server_context(files: TlsFiles) -> ssl.SSLContext:
    """Return a server context that requires client certificates of the CA. Raises ConfigError."""
    return _load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), files)


def optional_client_context(cert: str, key: str, client_ca: str) -> ssl.SSLContext:
    """Return a server context with optional client certificates of the CA. Raises ConfigError.

    ``cert`` and ``key`` are paths, ``client_ca`` is PEM text; if empty, no client certificate is valid.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_OPTIONAL
    # A resumed session would carry a client certificate that is not verified again.
    context.options |= ssl.OP_NO_TICKET
    context.num_tickets = 0
    try:
        context.load_cert_chain(cert, key)
        if client_ca:
            context.load_verify_locations(cadata=client_ca)
    except (OSError, ValueError) as error:
        raise ConfigError(f"TLS files {cert}, {key} and the CA of clients: {error}") from error
    return context


class Renewable:
    """A replaceable server context: each connection uses the ``current`` one when it starts."""

    def __init__(self, first: ssl.SSLContext) -> None:
        self.current = self.context = first
        first.sni_callback = self._choose

    def _choose(self, connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:  # noqa: ARG002 - ssl's signature
        """Select the context; called for every connection, with or without a server name."""
        connection.context = self.current


def common_name(certificate: Mapping[str, Any] | None) -> str:
    """Return the subject's common name of a verified certificate of ``ssl``; empty if absent."""
    parts = certificate.get("subject", ()) if certificate else ()
    return next((value for part in parts for name, value in part if name == "commonName"), "")


def client_context(files: TlsFiles) -> ssl.SSLContext:
    """Return a client context with our certificate that trusts only the CA. Raises ConfigError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # Replicas are addressed by IP; the CA signs only certificates of extenders.
    context.check_hostname = False
    return _load(context, files)


def _load(context: ssl.SSLContext, files: TlsFiles) -> ssl.SSLContext:
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_REQUIRED
    try:
        context.load_cert_chain(files.cert, files.key)
        context.load_verify_locations(files.client_ca)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"TLS files {files.cert}, {files.key}, {files.client_ca}: {error}") from error
    return context
