"""Reasons of failed requests are short and name the address and the cause."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from devkit.ports import free_ports
from gpushare.adapters.http_errors import failure_text
from testbed.control_plane.pki import Authority


async def failure(url: str) -> str:
    async with aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.ClientError) as caught:
            await session.get(url)
    return failure_text(caught.value)


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_closed_port_is_named_with_the_reason(scheme: str) -> None:
    (port,) = free_ports(1)
    assert await failure(f"{scheme}://127.0.0.1:{port}/") == (
        f"cannot connect to 127.0.0.1:{port}: Connection refused"
    )


async def test_an_unknown_host_is_named_with_the_reason() -> None:
    text = await failure("https://host.invalid:6443/")
    assert text.startswith("cannot connect to host.invalid:6443: ")
    assert "object at" not in text


async def test_a_url_that_is_none_is_named_as_such() -> None:
    assert await failure("http://127.0.0.1:99999/") == "not a valid URL"


@asynccontextmanager
async def listening(tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """The host and port of a server that accepts connections."""
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=tls)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_a_certificate_that_is_not_trusted_is_named_with_the_reason(tmp_path: Path) -> None:
    Authority.create("ca").peer("server", ["127.0.0.1"]).write(tmp_path, "server")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(tmp_path / "server.crt", tmp_path / "server.key")
    async with listening(tls) as host:
        assert await failure(f"https://{host}/") == (
            f"the certificate of {host} is not trusted: unable to get local issuer certificate"
        )


async def test_a_server_without_tls_is_named_with_the_reason() -> None:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        host = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        text = await failure(f"https://{host}/")
    assert text.startswith(f"cannot connect to {host} with TLS: ")
    assert "_ssl.c" not in text


def test_other_errors_have_their_text_or_their_name() -> None:
    assert failure_text(aiohttp.ClientPayloadError("cut off")) == "cut off"
    assert failure_text(aiohttp.ServerDisconnectedError()) == "Server disconnected"
    assert failure_text(ConnectionResetError()) == "ConnectionResetError"
