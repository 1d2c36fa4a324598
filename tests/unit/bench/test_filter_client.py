"""The client of the benchmark reads the answers of any extender, and counts the nodes that pass."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.bench.filter_client import measure
from tests.bench.rival import Rival, passed

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
NAMES = b'{"NodeNames": ["a", "b"], "FailedNodes": {}}'
CHUNKED = (
    HEAD
    + b"Transfer-Encoding: chunked\r\n\r\n"
    + b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (NAMES[:10], NAMES[10:], b""))
)


def sized(body: bytes) -> bytes:
    return HEAD + b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


@contextmanager
def answering(answer: bytes, calls: int) -> Iterator[tuple[int, list[bytes]]]:
    """A server on loopback that sends the answer to each call, in two parts."""
    requests: list[bytes] = []

    def serve() -> None:
        with listener.accept()[0] as connection:
            for _ in range(calls):
                requests.append(connection.recv(1 << 16))
                connection.sendall(answer[:-7])
                connection.sendall(answer[-7:])

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1], requests
        thread.join(5)


@pytest.mark.parametrize("answer", [sized(NAMES), CHUNKED], ids=["sized", "chunked"])
def test_each_answer_is_read_to_its_end(answer: bytes) -> None:
    with answering(answer, 3) as (port, requests):
        assert len(measure(port, b"{}", 2, warm_up=1, prefix="/other")) == 2
    assert len(requests) == 3
    assert requests[0].startswith(b"POST /other/filter HTTP/1.1\r\n")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [(b"HTTP/1.1 404 Not Found\r\n\r\n", "404 Not Found"), (sized(NAMES)[:-9], "before the end")],
)
def test_an_answer_that_is_no_result_ends_the_measurement(answer: bytes, reason: str) -> None:
    with answering(answer, 1) as (port, _), pytest.raises(SystemExit, match=reason):
        measure(port, b"{}", 1, warm_up=0)


@pytest.mark.parametrize(
    ("body", "number"),
    [
        (NAMES, 2),
        (b'{"Nodes": {"items": [{"metadata": {"name": "a"}}]}, "NodeNames": null}', 1),
        (b'{"nodenames": ["a"], "error": ""}', 1),
        (b'{"NodeNames": null, "Nodes": null, "Error": "no"}', 0),
    ],
)
async def test_the_nodes_that_pass_are_counted_by_name_or_as_objects(body: bytes, number: int) -> None:
    with answering(sized(body), 1) as (port, _):
        assert await passed(Rival("true", port=port), ["a", "b"], 1) == number
