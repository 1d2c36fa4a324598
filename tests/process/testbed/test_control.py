"""The program that runs commands on a machine with its own kernel, on this machine."""

import base64
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devkit.ports import LOOPBACK, free_ports
from testbed.uml import control
from tests.support.waiting import until

KEY = "the key"


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    """The port of the running program."""
    (number,) = free_ports(1)
    file = tmp_path / "key"
    file.write_text(KEY)
    argv = [sys.executable, "-I", "-S", control.__file__, LOOPBACK, str(number), str(file), "/"]
    with subprocess.Popen(argv) as process:  # noqa: S603 - our own program
        yield number
        process.kill()


async def ask(port: int, key: str, argv: list[str], stdin: bytes = b"") -> dict[str, Any] | None:
    """The answer, or None if the connection is closed without one."""
    found: list[socket.socket] = []

    def connected() -> bool:
        try:
            found.append(socket.create_connection((LOOPBACK, port)))
        except ConnectionRefusedError:
            return False
        return True

    await until(connected)
    question = {"key": key, "argv": argv, "stdin": base64.b64encode(stdin).decode()}
    with found[0] as connection, connection.makefile("rwb") as stream:
        stream.write(json.dumps(question).encode() + b"\n")
        stream.flush()
        line = stream.readline()
    return json.loads(line) if line else None


async def test_without_the_key_no_command_runs(port: int, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    assert await ask(port, "another key", ["touch", str(mark)]) is None
    assert not mark.exists()


@pytest.mark.needs("root")
async def test_a_command_gets_its_input_and_its_result_is_returned(port: int) -> None:
    answer = await ask(port, KEY, ["sh", "-c", "cat; echo bad >&2; exit 3"], b"\x00\xff")
    assert answer == {"code": 3, "out": base64.b64encode(b"\x00\xff").decode(), "err": "bad\n"}


@pytest.mark.needs("root")
async def test_a_program_that_does_not_exist_is_an_error(port: int) -> None:
    answer = await ask(port, KEY, ["/no/such/program"])
    assert answer is not None
    assert (answer["code"], "/no/such/program" in answer["err"]) == (127, True)
