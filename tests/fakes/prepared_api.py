"""A STAND-IN for an API server that answers GET requests with prepared documents, without TLS.

Why: the version of a real one cannot be chosen, and a test must not depend on the order of its objects.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, ClassVar
from urllib.parse import unquote

import yaml

Answers = Mapping[str, dict[str, Any] | int]
"""Documents, or HTTP status codes, by path and query."""

NODES = "/api/v1/nodes?limit=1"
CLUSTER: Answers = {
    "/version": {"major": "1", "minor": "36+"},
    "/apis": {"groups": [{"versions": [{"groupVersion": "apps/v1"}]}]},
    NODES: {"metadata": {"remainingItemCount": 49}, "items": [{}]},
    f"{NODES}&labelSelector=node-role.kubernetes.io/control-plane": {"metadata": {}, "items": [{}]},
    f"{NODES}&labelSelector=node-role.kubernetes.io/master": {"metadata": {}, "items": []},
}
"""Of 50 nodes."""


class _Handler(BaseHTTPRequestHandler):
    answers: ClassVar[Answers] = {}

    def do_GET(self) -> None:
        answer = self.answers.get(unquote(self.path), 404)
        status, body = (answer, {}) if isinstance(answer, int) else (200, answer)
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args: Any) -> None:
        """Do not log requests."""


@contextmanager
def served(answers: Answers) -> Iterator[str]:
    """Serve until the end of the context; the text of a kubeconfig with the context "one"."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Prepared", (_Handler,), {"answers": answers}))
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield _kubeconfig(f"http://127.0.0.1:{server.server_port}")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _kubeconfig(url: str) -> str:
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "one",
            "clusters": [{"name": "one", "cluster": {"server": url}}],
            "users": [{"name": "one", "user": {}}],
            "contexts": [{"name": "one", "context": {"cluster": "one", "user": "one"}}],
        }
    )
