"""Listening sockets of daemons. The defaults of their flags are here, without the imports of a server."""

import socket
from typing import Final

from gpushare.errors import ConfigError

ANY_ADDRESS: Final = "::"
_ANY_IPV4: Final = "0.0.0.0"  # noqa: S104 - as ANY_ADDRESS
_BACKLOG: Final = 1024


def _has_ipv6() -> bool:
    """Whether sockets of IPv6 can be bound; it may be compiled in and disabled."""
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


def bind_socket(host: str, port: int) -> socket.socket:
    """Return a listening socket, so that a port in use is an error before anything else starts.

    ``::`` is every address of both families, or of IPv4 on a machine without IPv6.
    """
    if host == ANY_ADDRESS and not _has_ipv6():
        host = _ANY_IPV4
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if host == ANY_ADDRESS:
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise ConfigError(f"cannot listen on {host}:{port}: {error.strerror}") from error
    listener.listen(_BACKLOG)
    listener.setblocking(False)  # noqa: FBT003 - the socket API
    return listener
