"""Binds forwarded to another replica."""

import pytest
from aiohttp import web

from gpushare.adapters.peer import FORWARDED_HEADER, Peers
from gpushare.errors import ApiError
from tests.unit.adapters.fakes import Answer, fixed, serving


async def passed_on(answer: Answer, *, timeout_s: float = 4.0) -> bytes:
    async with serving() as served, Peers(timeout_s=timeout_s) as peers:
        served.script.append(answer)
        address = served.client.host.removeprefix("http://")
        return await peers.post(address, "/gpushare-scheduler/bind", b"{}")


async def test_a_bind_that_is_passed_on_is_marked_and_answered() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        seen = request.headers[FORWARDED_HEADER], request.path, await request.read()
        assert seen == ("1", "/gpushare-scheduler/bind", b"{}")
        return web.Response(body=b'{"Error":""}')

    assert await passed_on(answer) == b'{"Error":""}'


async def test_a_peer_that_refuses_is_an_error_with_its_status() -> None:
    with pytest.raises(ApiError, match="HTTP 404") as caught:
        await passed_on(fixed(404))
    assert caught.value.status == 404


async def test_a_peer_that_does_not_respond_is_an_unclear_error() -> None:
    async with serving() as served, Peers(timeout_s=0.05) as peers:
        with pytest.raises(ApiError, match="TimeoutError") as caught:
            await peers.post(served.client.host.removeprefix("http://"), "/bind", b"")
        assert not caught.value.clear


async def test_a_client_that_is_not_open_raises_an_error() -> None:
    with pytest.raises(ApiError, match="not open"):
        await Peers().post("127.0.0.1:1", "/bind", b"")
