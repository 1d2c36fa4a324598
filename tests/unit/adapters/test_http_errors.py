"""Reasons of failed requests are short and name the address and the cause."""

import aiohttp
import pytest

from devkit.ports import free_ports
from gpushare.adapters.http_errors import failure_text


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


def test_other_errors_have_their_text_or_their_name() -> None:
    assert failure_text(aiohttp.ClientPayloadError("cut off")) == "cut off"
    assert failure_text(aiohttp.ServerDisconnectedError()) == "Server disconnected"
    assert failure_text(ConnectionResetError()) == "ConnectionResetError"
