"""TLS contexts for servers and clients that prove themselves to each other."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpushare.errors import ConfigError


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Paths: our certificate and key, and the CA that the other side must be signed by."""

    cert: str
    key: str
    client_ca: str


def server_context(files: TlsFiles) -> ssl.SSLContext:
    """A server that accepts only clients with a certificate of the CA. Raises ConfigError."""
    return _load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), files)


def optional_client_context(cert: str, key: str, client_ca: str) -> ssl.SSLContext:
    """A server whose clients may show a certificate, which then must be of the CA. Raises ConfigError.

    ``cert`` and ``key`` are paths, ``client_ca`` is PEM text; while that is empty, no certificate will do.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_OPTIONAL
    # A resumed session would bring a certificate along that nobody checks again.
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
    """A server's ``context``: each connection is served by the one that is ``current`` when it begins."""

    def __init__(self, first: ssl.SSLContext) -> None:
        self.current = self.context = first
        first.sni_callback = self._choose

    def _choose(self, connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:  # noqa: ARG002 - ssl's signature
        """Called for every connection, also for one whose client names no server."""
        connection.context = self.current


def common_name(certificate: Mapping[str, Any] | None) -> str:
    """The subject's common name in a verified certificate as ``ssl`` shows it; empty where there is none."""
    parts = certificate.get("subject", ()) if certificate else ()
    return next((value for part in parts for name, value in part if name == "commonName"), "")


def client_context(files: TlsFiles) -> ssl.SSLContext:
    """A client that shows our certificate and trusts only the CA. Raises ConfigError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # Replicas are addressed by IP; the CA of the extenders signs nothing else.
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
