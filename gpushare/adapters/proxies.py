"""The proxy that the environment names for a URL, as Go's httpproxy chooses it, and so kubectl. Pure.

See https://pkg.go.dev/golang.org/x/net/http/httpproxy. ``urllib`` does less: it sends requests to loopback
through the proxy, and knows neither networks nor ports in NO_PROXY.
"""

from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final
from urllib.parse import SplitResult, urlsplit

from gpushare.errors import ConfigError
from gpushare.model.urls import is_http_url

_PORTS: Final = {"http": 80, "https": 443}
"""The default ports of the schemes that the client can use, for servers and proxies."""


def proxy_of(url: str, environ: Mapping[str, str]) -> str | None:
    """Return the URL of the proxy for an http(s) URL; None for a direct connection. Raises ConfigError."""
    parts = urlsplit(url)
    name = f"{parts.scheme.upper()}_PROXY"
    value = _variable(environ, name)
    if not value or _is_direct(parts, _variable(environ, "NO_PROXY")):
        return None
    proxy = value if _has_host(value) else f"http://{value}"
    if not is_http_url(proxy):  # the value may have a password
        raise ConfigError(f"{name} is not like http://host:3128, and gpushare uses no other kind of proxy")
    return proxy


def _variable(environ: Mapping[str, str], name: str) -> str:
    """Lower case first, as in Go's module since 0.58, curl and Python."""
    return environ.get(name.lower()) or environ.get(name, "")


def _has_host(proxy: str) -> bool:
    """Whether a proxy is a URL; otherwise it is ``host:port``, whose scheme is http."""
    try:
        parts = urlsplit(proxy)
    except ValueError:
        return True
    return bool(parts.scheme and parts.netloc)


def _is_direct(url: SplitResult, no_proxy: str) -> bool:
    """Whether the host is this machine, or an entry of NO_PROXY excludes it."""
    host, port = url.hostname or "", str(url.port or _PORTS[url.scheme])
    address = _address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    entries = [entry.strip() for entry in no_proxy.lower().split(",")]
    excluded = (name for name, wanted in map(_split, entries) if name and wanted in ("", port))
    return "*" in entries or any(
        _is_within(address, name) if address else _is_below(host, name) for name in excluded
    )


def _split(entry: str) -> tuple[str, str]:
    """Host and port; an IPv6 address with a port is in brackets."""
    host, colon, port = entry.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        return host[1:-1], port
    return (host, port) if colon and ":" not in host else (entry, "")


def _is_within(address: IPv4Address | IPv6Address, name: str) -> bool:
    """Whether the name is this address, or a network that has it."""
    prefix = name.rpartition("/")[2]
    try:
        return address == _address(name) or (prefix.isdecimal() and address in ip_network(name, strict=False))
    except ValueError:
        return False


def _is_below(host: str, name: str) -> bool:
    """Whether the host has this name or is in this domain; ``.a.test`` and ``*.a.test`` are domains only."""
    domain = name[1:] if name.startswith("*.") else name
    return host == domain or host.endswith(domain if domain.startswith(".") else f".{domain}")


def _address(host: str) -> IPv4Address | IPv6Address | None:
    """The address, as IPv4 if it is one written as IPv6; None for a name."""
    try:
        address = ip_address(host)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
