"""A client of the extender that measures filter calls over one keep-alive connection, as the scheduler's.

As a program it is a separate process, so that the work of the benchmark does not delay its calls:
``python -m tests.bench.filter_client PORT BODY_FILE SECONDS INTERVAL_S`` prints the round trips as JSON.
"""

import json
import socket
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from gpushare.contract import EXTENDER_PREFIX

_LAST_CHUNK: Final = b"0\r\n\r\n"


def round_trips(port: int, body: bytes, prefix: str = EXTENDER_PREFIX) -> Iterator[float]:
    """Call filter for each number that is requested: seconds of the round trip."""
    head = (
        f"POST {prefix}/filter HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode()
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            began = time.perf_counter()
            connection.sendall(head + body)
            _read_answer(connection)
            yield time.perf_counter() - began


def paced(calls: Iterator[float], seconds: float, interval_s: float) -> Iterator[float]:
    """A call each ``interval_s`` seconds, measured from the time at which it was due."""
    began = due = time.perf_counter()
    while due - began < seconds:
        time.sleep(max(0.0, due - time.perf_counter()))
        next(calls)
        yield time.perf_counter() - due
        due += interval_s


def measure(
    port: int, body: bytes, calls: int, *, warm_up: int, prefix: str = EXTENDER_PREFIX
) -> list[float]:
    """Round trips one after the other, without those of the warm-up."""
    return list(islice(round_trips(port, body, prefix), warm_up, warm_up + calls))


def _read_answer(connection: socket.socket) -> None:
    """Read a whole answer: with its length, or in chunks, which never end like the last one."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += _received(connection)
    head, _, rest = data.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        raise SystemExit(f"filter answered {head.decode()}")
    lines = (line.partition(b":") for line in head.lower().split(b"\r\n"))
    length = next((int(value) for name, _, value in lines if name == b"content-length"), None)
    have, tail = len(rest), rest[-len(_LAST_CHUNK) :]
    while have < length if length is not None else tail != _LAST_CHUNK:
        part = _received(connection)
        have += len(part)
        tail = (tail + part)[-len(_LAST_CHUNK) :]


def _received(connection: socket.socket) -> bytes:
    part = connection.recv(1 << 20)
    if not part:
        raise SystemExit("the extender has closed the connection before the end of its answer")
    return part


def main() -> None:
    """Measure and print."""
    port, body_file, seconds, interval_s = sys.argv[1:]
    calls = round_trips(int(port), Path(body_file).read_bytes())
    print(json.dumps(list(paced(calls, float(seconds), float(interval_s)))))  # noqa: T201 - the result


if __name__ == "__main__":
    main()
