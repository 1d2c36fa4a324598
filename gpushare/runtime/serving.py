"""Listening sockets. The server is in ``server``."""

import socket

from gpushare.errors import ConfigError

_BACKLOG = 1024


def bind_socket(host: str, port: int) -> socket.socket:
    """Return a listening socket, so that a port in use is an error before anything else starts."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise ConfigError(f"cannot listen on {host}:{port}: {error.strerror}") from error
    listener.listen(_BACKLOG)
    listener.setblocking(False)  # noqa: FBT003 - the socket API
    return listener
