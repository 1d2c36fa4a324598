"""The kubelet's list of its pods, ``GET https://<address>:<port>/pods``.

Returns raw bytes: ``adapters.kube`` has the codec of API objects.
"""

import ssl
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Final

import aiohttp

from gpushare import __version__
from gpushare.adapters.http_errors import failure_text
from gpushare.adapters.kube.access import bearer, bearer_of
from gpushare.errors import ConfigError, KubeletError, cause_of

CLUSTER_CA: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/ca.crt")
_MAX_ERROR_TEXT = 500


@dataclass(frozen=True, slots=True)
class KubeletAccess:
    """The kubelet's address, and the credentials of both sides.

    ``server_name`` is the name in its certificate, ``address`` if empty. ``token_file`` is read for each
    request, because the cluster rotates it; ``token`` is a fixed one.
    """

    address: str
    port: int = 10250
    ca_file: Path = CLUSTER_CA
    insecure: bool = False
    server_name: str = ""
    token: str = ""
    token_file: Path | None = None
    client_cert: Path | None = None
    client_key: Path | None = None
    timeout_s: float = 10.0

    @property
    def url(self) -> str:
        """The list's URL."""
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"https://{host}:{self.port}/pods"


def check_access(access: KubeletAccess) -> None:
    """Raise ConfigError if one of its files is unusable."""
    _tls(access)
    _headers(access)


async def fetch_pods(access: KubeletAccess) -> bytes:
    """Return the encoded PodList. Raises KubeletError, and ConfigError for unusable files."""
    context, headers = _tls(access), _headers(access)
    timeout = aiohttp.ClientTimeout(total=access.timeout_s)
    name = access.server_name or None
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, headers=headers) as session,
            session.get(access.url, ssl=context, server_hostname=name, allow_redirects=False) as response,
        ):
            body = await response.read()
            if response.status != HTTPStatus.OK:
                text = body[:_MAX_ERROR_TEXT].decode(errors="replace").strip()
                raise KubeletError(f"{access.url}: HTTP {response.status}: {text}")
            return body
    except TimeoutError as error:
        raise KubeletError(f"{access.url}: no response in {access.timeout_s:g} s") from error
    except (aiohttp.ClientError, OSError) as error:
        raise KubeletError(f"{access.url}: {failure_text(error)}") from error


def _tls(access: KubeletAccess) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        if access.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        else:
            context.load_verify_locations(access.ca_file)
        if access.client_cert:
            context.load_cert_chain(access.client_cert, access.client_key)
    except (OSError, ssl.SSLError) as error:
        files = access.ca_file, access.client_cert, access.client_key
        names = ", ".join(str(each) for each in files if each)
        raise ConfigError(f"TLS files {names}: {cause_of(error)}") from error
    return context


def _headers(access: KubeletAccess) -> dict[str, str]:
    headers = {"Accept": "application/json", "User-Agent": f"gpushare/{__version__}"}
    authorization = _authorization(access)
    return headers | ({"Authorization": authorization} if authorization else {})


def _authorization(access: KubeletAccess) -> str:
    """The header; empty without a token."""
    try:
        if access.token:
            return bearer(access.token)
        return bearer_of(access.token_file) if access.token_file else ""
    except ConfigError as error:
        raise ConfigError(f"token of the kubelet: {error}") from error
