"""TLS contexts of servers, made again when the files of their certificates change."""

import asyncio
import math
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Generic, TypeVar

import structlog

from gpushare.errors import ConfigError, cause_of
from gpushare.runtime.certificates import expiry_of
from gpushare.runtime.reasons import Reasons
from gpushare.runtime.settings import TlsFiles

log = structlog.get_logger()

RELOAD_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class _Server:
    server: ssl.SSLContext
    expires_at: float


@dataclass(frozen=True, slots=True)
class _Mutual(_Server):
    client: ssl.SSLContext


S = TypeVar("S", bound=_Server)


class ReloadedTls(Generic[S]):
    """Contexts made of some content, made again when the content changes. ``name`` is for the log.

    Raises ConfigError if they cannot be made at first. Later errors are logged once and change nothing.
    """

    def __init__(
        self, content: Callable[[], object], make: Callable[[], S], name: str, reload_s: float
    ) -> None:
        self._content = content
        self._make = make
        self._name = name
        self._reload_s = reload_s
        self._errors = Reasons()
        self._loaded = content()
        self.value = make()

    @property
    def expires_at(self) -> float:
        """The end of our certificate in seconds of Unix time; NaN if it is unknown."""
        return self.value.expires_at

    async def run(self) -> None:
        """Look for changes until cancelled."""
        while True:
            await asyncio.sleep(self._reload_s)
            self.reload()

    def reload(self) -> None:
        """Look for changes now."""
        try:
            content = self._content()
            if content != self._loaded:
                self.value, self._loaded = self._make(), content
                log.info("certificate_served", cert=self._name)
            self._errors.end()
        except ConfigError as error:
            if self._errors.is_new(str(error)):
                log.warning("certificate_not_renewed", reason=str(error))


class MutualTls(ReloadedTls[_Mutual]):
    """Server and client contexts of one set of files, for peers that authenticate each other.

    The server requires client certificates of the CA; the client trusts only the CA.
    """

    def __init__(self, files: TlsFiles, *, reload_s: float = RELOAD_S) -> None:
        paths = (files.cert, files.key, files.client_ca)
        super().__init__(lambda: _content(*paths), lambda: _mutual(files), files.cert, reload_s)
        self.server = _current(lambda: self.value.server)

    @property
    def client(self) -> ssl.SSLContext:
        """The context for new connections to peers."""
        return self.value.client


class ServerTls(ReloadedTls[_Server]):
    """``context`` is that of a server with optional client certificates.

    ``client_ca`` returns the CA of clients as PEM text; if empty, no client certificate is valid.
    """

    def __init__(
        self, cert: str, key: str, client_ca: Callable[[], str] = lambda: "", *, reload_s: float = RELOAD_S
    ) -> None:
        super().__init__(
            lambda: (*_content(cert, key), client_ca()),
            lambda: _server(cert, key, client_ca()),
            cert,
            reload_s,
        )
        self.context = _current(lambda: self.value.server)


def _content(*paths: str) -> tuple[bytes, ...]:
    try:
        return tuple(Path(path).read_bytes() for path in paths)
    except OSError as error:
        raise ConfigError(f"TLS files {', '.join(paths)}: {cause_of(error)}") from error


def _current(current: Callable[[], ssl.SSLContext]) -> ssl.SSLContext:
    """Return a context for a server, in which each connection gets the ``current`` one when it starts."""

    def choose(connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:  # noqa: ARG001 - ssl's signature
        connection.context = current()

    first = current()
    first.sni_callback = choose  # called for every connection, with or without a server name
    return first


def _mutual(files: TlsFiles) -> _Mutual:
    server = _without_resumption(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for context in (server, client):
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            context.load_cert_chain(files.cert, files.key)
            context.load_verify_locations(files.client_ca)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(
                f"TLS files {files.cert}, {files.key}, {files.client_ca}: {cause_of(error)}"
            ) from error
    return _Mutual(server, _expiry(files.cert), client)


def _server(cert: str, key: str, client_ca: str) -> _Server:
    context = _without_resumption(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_OPTIONAL
    try:
        context.load_cert_chain(cert, key)
        if client_ca:
            context.load_verify_locations(cadata=client_ca)
    except (OSError, ValueError) as error:
        raise ConfigError(f"TLS files {cert}, {key} and the CA of clients: {cause_of(error)}") from error
    return _Server(context, _expiry(cert))


def _expiry(cert: str) -> float:
    """NaN if it cannot be read: OpenSSL has loaded the certificate, and accepts more than DER."""
    try:
        return expiry_of(Path(cert).read_text(errors="replace"))
    except (OSError, ConfigError) as error:
        log.warning("certificate_end_unknown", cert=cert, reason=str(error))
        return math.nan


def _without_resumption(context: ssl.SSLContext) -> ssl.SSLContext:
    """A resumed session would carry a client certificate that is not verified again."""
    context.options |= ssl.OP_NO_TICKET
    context.num_tickets = 0
    return context
