"""The program of a server: ``python -m tests.bench.models.server <JSON>``, in the Python of GPU_PYTHON.

Speaks lines with its parent: it writes ``{"ready": true}`` when the model can serve, reads the time until
which it serves (CLOCK_MONOTONIC, which all processes share), and writes what it served. Without a parent it
ends.
"""

import json
import sys
import time
from dataclasses import asdict
from typing import Any

from tests.bench.models.serving import Engine, serve
from tests.bench.models.shapes import SHAPES
from tests.bench.models.trace import Request


class Pretended:
    """A FAKE: no model, each call takes ``step_s``. For tests of what is around the servers."""

    def __init__(self, slots: int, step_s: float) -> None:
        self.slots, self._step_s = slots, step_s

    def prefill(self, slot: int, prompt: int) -> None:
        """Wait for a step."""
        del slot, prompt
        time.sleep(self._step_s)

    def decode(self) -> None:
        """Wait for a step."""
        time.sleep(self._step_s)


def loaded(config: dict[str, Any]) -> Engine:
    """The engine of a configuration; "none" is no device."""
    if config["device"] == "none":
        return Pretended(config["slots"], config["step_s"])
    import torch  # noqa: PLC0415 - not for the engine that only waits

    from tests.bench.models.engine import TorchEngine  # noqa: PLC0415 - as above

    torch.set_grad_enabled(False)
    shape = SHAPES[config["shape"]]
    return TorchEngine(shape, config["slots"], config["length"], config["seed"], config["device"])


def say(**what: Any) -> None:
    """Write a line to the parent."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Serve once."""
    config = json.loads(sys.argv[1])
    engine = loaded(config)
    say(ready=True)
    until = sys.stdin.readline()
    if until:
        requests = [Request(*each) for each in config["requests"]]
        say(served=asdict(serve(engine, requests, float(until), time.monotonic)))


if __name__ == "__main__":
    main()
