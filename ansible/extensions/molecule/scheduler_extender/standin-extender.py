"""Stands in for an extender: answers everything at the host's own address, and nothing on loopback."""

import socket
from http.server import BaseHTTPRequestHandler, HTTPServer


class Handler(BaseHTTPRequestHandler):
    """Says 200."""

    def do_GET(self) -> None:
        """Whatever the path."""
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()


def own_address() -> str:
    """That of the route to elsewhere; nothing is sent."""
    with socket.socket(type=socket.SOCK_DGRAM) as asked:
        asked.connect(("198.51.100.1", 9))
        return str(asked.getsockname()[0])


HTTPServer((own_address(), 32766), Handler).serve_forever()
