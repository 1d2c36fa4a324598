"""TLS contexts for servers and clients that prove themselves to each other."""

import ssl
from dataclasses import dataclass

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
