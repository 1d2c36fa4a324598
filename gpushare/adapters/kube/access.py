"""Access to an API server: address, TLS, credentials.

Loading them belongs in ``config``, ``credentials`` and ``service_account``, requests in ``client``.
"""

import ssl
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import NamedTemporaryFile

from gpushare.errors import ConfigError, cause_of

Pem = Path | bytes
"""The file of a certificate or key, or its content."""


async def _anonymous() -> None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiAccess:
    """A URL, TLS settings, and a callback for the Authorization header of each request.

    ``credentials`` names what the callback may wait for. ``rejected`` is called when the API server has
    rejected the credentials. Without ``key``, the private key is in ``cert``. ``impersonation`` are the
    headers that name another user.
    """

    host: str
    authorization: Callable[[], Awaitable[str | None]] = _anonymous
    credentials: str = ""
    rejected: Callable[[], None] = lambda: None
    ca: Pem | None = None
    cert: Pem | None = None
    key: Pem | None = None
    verify: bool = True
    tls_server_name: str | None = None
    proxy: str | None = None
    impersonation: tuple[tuple[str, str], ...] = ()

    def ssl_context(self) -> ssl.SSLContext:
        """Return the client's TLS context. Raises ConfigError if the files are unusable."""
        try:
            context = _trusting(self.ca)
            if self.cert:
                with _file(self.cert) as cert, _file(self.key or self.cert) as key:
                    context.load_cert_chain(cert, key)
        except (OSError, ValueError) as error:
            raise ConfigError(f"TLS files {self._names()}: {cause_of(error)}") from error
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context

    def _names(self) -> str:
        given = {"ca": self.ca, "cert": self.cert, "key": self.key}
        return ", ".join(
            str(pem) if isinstance(pem, Path) else f"({name} as data)" for name, pem in given.items() if pem
        )


def impersonating(access: ApiAccess, user: str, groups: Sequence[str]) -> ApiAccess:
    """Access as another user (https://kubernetes.io/docs/reference/access-authn-authz/user-impersonation)."""
    names = [("Impersonate-User", user), *(("Impersonate-Group", group) for group in groups)]
    return replace(access, impersonation=tuple(names))


def _trusting(ca: Pem | None) -> ssl.SSLContext:
    """A context that trusts this CA only; without one, those of the system."""
    if isinstance(ca, bytes):
        return ssl.create_default_context(
            cadata=ca.decode("ascii", "ignore")
        )  # others occur in comments only
    return ssl.create_default_context(cafile=ca)


@contextmanager
def _file(pem: Pem) -> Iterator[str]:
    """``ssl`` loads keys from files only; the file can be read by its owner only, and is removed."""
    if isinstance(pem, Path):
        yield str(pem)
        return
    with NamedTemporaryFile() as file:
        file.write(pem)
        file.flush()
        yield file.name


def text_of(path: Path) -> str:
    """Return the content of a credentials file. Raises ConfigError if it is empty or unreadable."""
    try:
        text = path.read_text()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not text: {cause_of(error)}") from error
    if not text.strip():
        raise ConfigError(f"{path}: is empty")
    return text


def bearer(token: str) -> str:
    """Return the Authorization header of a token. Raises ConfigError if it is none, such as two lines."""
    if not token.isascii() or not token.isprintable():
        raise ConfigError("the token has characters that no token has, such as the end of a line")
    return f"Bearer {token}"


def bearer_of(path: Path) -> str:
    """Return the Authorization header of the token in a file. Raises ConfigError with the file's name."""
    token = text_of(path).strip()
    try:
        return bearer(token)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
