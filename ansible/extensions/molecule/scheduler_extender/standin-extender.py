"""A fake extender: answers every request at the address of the host, and none on loopback."""

import socket
from http.server import BaseHTTPRequestHandler, HTTPServer


class Handler(BaseHTTPRequestHandler):
    """Answers 200."""

    def do_GET(self) -> None:
        """Answer, for any path."""
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()


def own_address() -> str:
    """Return the address of the default route; no packet is sent."""
    with socket.socket(type=socket.SOCK_DGRAM) as probe:
        probe.connect(("198.51.100.1", 9))
        return str(probe.getsockname()[0])


HTTPServer((own_address(), 32766), Handler).serve_forever()
