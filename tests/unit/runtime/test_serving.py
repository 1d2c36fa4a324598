"""Sockets, and the transport that sends in one write what was written in one turn."""

import asyncio
from typing import cast

import pytest

from gpushare.errors import ConfigError
from gpushare.runtime.serving import _OneWrite, bind_socket


class TransportFake:
    """A fake transport that keeps each write apart."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.closed = False

    def write(self, data: bytes) -> None:
        assert not self.closed
        self.writes.append(data)

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def get_extra_info(self, name: str) -> str:
        return f"info of {name}"


def wrapped() -> tuple[TransportFake, _OneWrite]:
    fake = TransportFake()
    return fake, _OneWrite(cast("asyncio.Transport", fake), asyncio.get_running_loop())


async def test_what_is_written_in_one_turn_is_sent_in_one_write() -> None:
    fake, transport = wrapped()
    transport.write(b"head ")
    transport.write(b"body")
    assert fake.writes == []
    await asyncio.sleep(0)
    assert fake.writes == [b"head body"]


async def test_each_turn_has_its_own_write() -> None:
    fake, transport = wrapped()
    for part in (b"one", b"two"):
        transport.write(part)
        await asyncio.sleep(0)
    assert fake.writes == [b"one", b"two"]


async def test_closing_sends_what_is_left_first_and_once() -> None:
    fake, transport = wrapped()
    transport.write(b"answer")
    transport.close()
    assert (fake.writes, fake.closed) == ([b"answer"], True)
    await asyncio.sleep(0)
    assert fake.writes == [b"answer"]


async def test_nothing_is_sent_to_a_connection_that_is_closing() -> None:
    fake, transport = wrapped()
    transport.write(b"answer")
    fake.close()
    await asyncio.sleep(0)
    assert fake.writes == []


async def test_all_else_is_the_transports_own() -> None:
    _, transport = wrapped()
    assert transport.get_extra_info("peername") == "info of peername"


def test_a_port_that_is_taken_is_named() -> None:
    with bind_socket("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1:{port}: "):
            bind_socket("127.0.0.1", port)


def test_an_address_that_is_not_ours_is_named() -> None:
    with pytest.raises(ConfigError, match=r"cannot listen on 192\.0\.2\.1:0: "):
        bind_socket("192.0.2.1", 0)
