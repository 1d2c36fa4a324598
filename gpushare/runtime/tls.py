"""TLS contexts for mutual authentication."""

import asyncio
import ssl
from dataclasses import dataclass
from pathlib import Path

import structlog

from gpushare.errors import ConfigError
from gpushare.runtime.certificates import expiry_of

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Paths of our certificate and key, and of the CA of the peers."""

    cert: str
    key: str
    client_ca: str


def server_context(files: TlsFiles) -> ssl.SSLContext:
    """Return a server context that requires client certificates of the CA. Raises ConfigError."""
    return _load(_without_resumption(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)), files)


def _without_resumption(context: ssl.SSLContext) -> ssl.SSLContext:
    """A resumed session would carry a client certificate that is not verified again."""
    context.options |= ssl.OP_NO_TICKET
    context.num_tickets = 0
    return context


def optional_client_context(cert: str, key: str, client_ca: str) -> ssl.SSLContext:
    """Return a server context with optional client certificates of the CA. Raises ConfigError.

    ``cert`` and ``key`` are paths, ``client_ca`` is PEM text; if empty, no client certificate is valid.
    """
    context = _without_resumption(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_OPTIONAL
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


class MutualTls:
    """Server and client contexts of one set of files, made again when the files change.

    Raises ConfigError if they cannot be loaded at first. Later errors are logged once and change nothing.
    ``expires_at`` is the end of our certificate in seconds of Unix time.
    """

    def __init__(self, files: TlsFiles, *, reload_s: float = 10.0) -> None:
        self._files = files
        self._reload_s = reload_s
        self._server = Renewable(server_context(files))
        self._loaded = self._content()
        self.expires_at = expiry_of(self._loaded[0].decode())
        self._last_error: str | None = None
        self.server = self._server.context
        self.client = client_context(files)

    async def run(self) -> None:
        """Look for changes until cancelled."""
        while True:
            await asyncio.sleep(self._reload_s)
            self._reload()

    def _reload(self) -> None:
        try:
            content = self._content()
            if content != self._loaded:
                server, self.client = server_context(self._files), client_context(self._files)
                self.expires_at = expiry_of(content[0].decode())
                self._server.current, self._loaded = server, content
                log.info("certificate_served", cert=self._files.cert)
            self._last_error = None
        except (ConfigError, OSError) as error:
            if self._last_error != str(error):
                log.warning("certificate_not_renewed", reason=str(error))
            self._last_error = str(error)

    def _content(self) -> tuple[bytes, ...]:
        files = self._files
        return tuple(Path(path).read_bytes() for path in (files.cert, files.key, files.client_ca))


def client_context(files: TlsFiles) -> ssl.SSLContext:
    """Return a client context with our certificate that trusts only the CA. Raises ConfigError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # Replicas are addressed by IP, and the CA signs certificates for servers only for extenders.
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
