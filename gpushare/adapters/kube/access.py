"""Access to an API server: address, TLS files, credentials.

Loading them belongs in ``config`` and ``service_account``, requests in ``client``.
"""

import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from gpushare.errors import ConfigError


async def _anonymous() -> None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiAccess:
    """A URL, paths of PEM files, and a callback for the Authorization header of each request."""

    host: str
    authorization: Callable[[], Awaitable[str | None]] = _anonymous
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    verify: bool = True
    tls_server_name: str | None = None
    proxy: str | None = None

    def ssl_context(self) -> ssl.SSLContext:
        """Return the client's TLS context. Raises ConfigError if the files are unusable."""
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
            if self.cert_file:
                context.load_cert_chain(self.cert_file, self.key_file)
        except (OSError, ValueError) as error:
            names = ", ".join(each for each in (self.ca_file, self.cert_file, self.key_file) if each)
            raise ConfigError(f"TLS files {names}: {error}") from error
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


def text_of(path: Path) -> str:
    """Return the content of a credentials file. Raises ConfigError if it is empty or unreadable."""
    try:
        text = path.read_text()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not text: {error}") from error
    if not text.strip():
        raise ConfigError(f"{path}: is empty")
    return text
