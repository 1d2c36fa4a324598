"""A STAND-IN for an API server that answers GET requests with prepared documents, without TLS.

Why: the version of a real one cannot be chosen, and a test must not depend on the order of its objects.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, ClassVar
from urllib.parse import unquote

import yaml

Answers = Mapping[str, dict[str, Any] | int]
"""Documents, or HTTP status codes, by path and query."""

NODES = "/api/v1/nodes?limit=1"
LABELLED = "/api/v1/nodes?labelSelector=node-role.kubernetes.io"
"""Followed by the rest of the label."""
SYSTEM = "/api/v1/namespaces/kube-system"
UID = "5e2b1d2c-0b6e-4d0a-9a53-0f7a3f0a7e01"


def _node(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": f"uid-of-{name}"}}


CLUSTER: Answers = {
    "/version": {"major": "1", "minor": "36+"},
    "/apis": {"groups": [{"versions": [{"groupVersion": "apps/v1"}]}]},
    SYSTEM: {"metadata": {"name": "kube-system", "uid": UID}},
    NODES: {"metadata": {"remainingItemCount": 49}, "items": [_node("cp-1")]},
    f"{LABELLED}/control-plane": {"metadata": {}, "items": [_node(f"cp-{index}") for index in (1, 2, 3)]},
    f"{LABELLED}/master": {"metadata": {}, "items": [_node("cp-3"), _node("cp-4")]},
}
"""Of 50 nodes, three of the control plane, and one more that has only the older label."""


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
def served(answers: Answers, contexts: Sequence[str] = ("one",)) -> Iterator[str]:
    """Serve until the end of the block; the text of a kubeconfig, the first context of which is current."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Prepared", (_Handler,), {"answers": answers}))
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield _kubeconfig(f"http://127.0.0.1:{server.server_port}", contexts)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _kubeconfig(url: str, contexts: Sequence[str]) -> str:
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": contexts[0],
            "clusters": [{"name": "one", "cluster": {"server": url}}],
            "users": [{"name": "one", "user": {}}],
            "contexts": [{"name": name, "context": {"cluster": "one", "user": "one"}} for name in contexts],
        }
    )
