"""A FAKE of kube-scheduler 1.36: serves its health, and rejects configurations of older APIs.

Run as ``kube-scheduler kube_scheduler.py FLAG…``. The environment has ``ROOT``, the root of the paths in
flags, and ``CERT``, a file with certificate and key.
"""

import json
import os
import ssl
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path


class Handler(BaseHTTPRequestHandler):
    """Always healthy."""

    def do_GET(self) -> None:
        """Return 200 for any path."""
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing."""


def main() -> None:
    """Serve until killed."""
    flags = dict(flag.partition("=")[::2] for flag in sys.argv[1:])
    if "--config" in flags:
        document = json.loads(Path(os.environ["ROOT"] + flags["--config"]).read_text())
        if document["apiVersion"] != "kubescheduler.config.k8s.io/v1":
            sys.exit(f"no kind is registered for version {document['apiVersion']}")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(os.environ["CERT"])
    server = HTTPServer(("127.0.0.1", int(flags["--secure-port"])), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.serve_forever()


main()
