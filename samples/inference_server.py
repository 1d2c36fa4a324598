"""``inference_server [--port 8080] [--size MIB] [--work-ms MS]``: a request keeps the GPU busy for some time.

It stands for a model: memory is allocated once at the start, and requests compute one after the other, in
kernels of a millisecond.
"""

import argparse
import json
import signal
import sys
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from samples.driver import MIB, CudaError, Driver

_KERNEL_NS: Final = 1_000_000
_NO_DRIVER: Final = 3


class Model:
    """Memory and work on the first GPU, for one request at a time. Raises CudaError and OSError."""

    def __init__(self, size_mib: int) -> None:
        self._driver = Driver()
        self._context = self._driver.open(0)
        self._driver.allocate(size_mib * MIB)
        self._kernel = self._driver.kernel()
        self._lock = threading.Lock()

    def infer(self, work_ms: int) -> None:
        """Compute for that long."""
        with self._lock:
            self._driver.use(self._context)
            for _ in range(work_ms):
                self._driver.launch(self._kernel, _KERNEL_NS)
            self._driver.wait()


class InferenceServer(ThreadingHTTPServer):
    """Serves the model."""

    daemon_threads = True

    def __init__(self, port: int, model: Model, work_ms: int) -> None:
        super().__init__(("", port), _Handler)
        self.model, self.work_ms = model, work_ms


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: InferenceServer

    def do_GET(self) -> None:
        if self.path == "/healthz":
            self._answer(HTTPStatus.OK, {})
            return
        try:
            self.server.model.infer(self.server.work_ms)
        except CudaError as error:
            self._answer(HTTPStatus.INTERNAL_SERVER_ERROR, {"error": str(error)})
        else:
            self._answer(HTTPStatus.OK, {"intent": "weather", "gpu_ms": self.server.work_ms})

    do_POST = do_GET  # noqa: N815 - as above

    def _answer(self, status: HTTPStatus, body: dict[str, Any]) -> None:
        content = json.dumps(body).encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name in http.server
        """Requests are not logged."""


def main(arguments: list[str] | None = None) -> int:
    """Serve until SIGTERM; 1 if the GPU cannot be used, 3 without a driver."""
    settings = _settings(arguments)
    try:
        model = Model(settings.size)
    except OSError as error:
        print(f"{error}: the container has no GPU, or the runtime mounts no driver", file=sys.stderr)
        return _NO_DRIVER
    except CudaError as error:
        print(error, file=sys.stderr)
        return 1
    with InferenceServer(settings.port, model, settings.work_ms) as server:
        signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
        print(f"inference_server listens on port {server.server_port}", flush=True)
        server.serve_forever()
    return 0


def _settings(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "inference_server", description="A sample of gpushare: GPU time by HTTP."
    )
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--size", type=int, default=1024, metavar="MIB", help="memory of the model")
    parser.add_argument("--work-ms", type=int, default=50, metavar="MS", help="GPU time of one request")
    return parser.parse_args(arguments)
