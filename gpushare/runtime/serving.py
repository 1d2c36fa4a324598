"""Listening sockets, and the HTTP server of the admin port. The server of the hot port is in ``server``."""

import contextlib
import socket
from collections.abc import Iterator
from ssl import SSLContext

import uvicorn
from starlette.applications import Starlette

from gpushare.errors import ConfigError

_KEEP_ALIVE_S = 120
"""Longer than the 90 s after which Go clients close idle connections, so that they close first."""
_GRACE_S = 5
_BACKLOG = 1024


class UvicornServer(uvicorn.Server):
    """A uvicorn server that leaves signals to the daemon."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Install nothing."""
        yield


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


def make_server(app: Starlette, tls: SSLContext | None = None) -> UvicornServer:
    """Return a server for the application; ``serve(sockets=[…])`` runs it until ``should_exit`` is set."""
    config = uvicorn.Config(
        app,
        http="httptools",
        loop="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=_GRACE_S,
    )
    config.load()
    config.ssl = tls
    return UvicornServer(config)
