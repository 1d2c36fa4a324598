"""A FAKE of an image registry: read-only, over an OCI image layout.

It replaces the registry that a node pulls from, and is a process of that node. It serves the endpoints of the
OCI distribution specification for a pull by digest, for any repository name::

    python registry.py FOLDER
"""

import json
import re
import sys
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

PORT: Final = 5000
_BLOB: Final = re.compile(r"/v2/[a-z0-9/._-]+/(manifests|blobs)/sha256:([0-9a-f]{64})(\?.*)?")


class Handler(BaseHTTPRequestHandler):
    """GET and HEAD of the files in the directory."""

    protocol_version = "HTTP/1.1"
    folder: Path

    def do_GET(self) -> None:
        """The version, a manifest or a blob."""
        self._answer(body=True)

    def do_HEAD(self) -> None:
        """The same without content."""
        self._answer(body=False)

    def _answer(self, *, body: bool) -> None:
        content, kind = self._find()
        self.send_response(HTTPStatus.OK if content is not None else HTTPStatus.NOT_FOUND)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content or b"")))
        self.end_headers()
        if body and content:
            self.wfile.write(content)

    def _find(self) -> tuple[bytes | None, str]:
        if self.path == "/v2/":
            return b"{}", "application/json"
        found = _BLOB.fullmatch(self.path)
        file = self.folder / "blobs/sha256" / found[2] if found else None
        if found is None or file is None or not file.exists():
            return None, "application/json"
        content = file.read_bytes()
        is_manifest = found[1] == "manifests"
        return content, json.loads(content)["mediaType"] if is_manifest else "application/octet-stream"


def serve(folder: Path) -> None:
    """Serve until killed."""
    handler: Any = type("Here", (Handler,), {"folder": folder})
    ThreadingHTTPServer(("", PORT), handler).serve_forever()


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
