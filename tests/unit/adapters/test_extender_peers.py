"""Binds forwarded to another replica."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from gpushare.adapters.extender_peers import FORWARDED_HEADER, Peers
from gpushare.contract import EXTENDER_SERVER_NAME
from gpushare.errors import ApiError
from gpushare.runtime.http import text_response
from gpushare.runtime.listener import bind_socket
from gpushare.runtime.server import HttpServer
from gpushare.runtime.settings import TlsFiles
from gpushare.runtime.tls import MutualTls
from testbed.control_plane.pki import Authority
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


@asynccontextmanager
async def replica(authority: Authority, folder: Path, name: str) -> AsyncIterator[str]:
    """The address of a replica whose certificate has this name."""
    authority.peer("extender", [name]).write(folder, name)
    files = TlsFiles(f"{folder}/{name}.crt", f"{folder}/{name}.key", f"{folder}/ca.crt")
    server = HttpServer(lambda _: text_response("bound"), max_body=100, tls=MutualTls(files).server)
    listener = bind_socket("127.0.0.1", 0)
    serving = asyncio.create_task(server.serve(listener))
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.stop()
        await serving


async def test_a_bind_goes_only_to_a_peer_with_the_name_of_the_extender(tmp_path: Path) -> None:
    """Another server may have a certificate of the same authority, such as the CA of the cluster."""
    authority = Authority.create("ca")
    (tmp_path / "ca.crt").write_bytes(authority.pair().cert)
    authority.peer("extender", [EXTENDER_SERVER_NAME]).write(tmp_path, "own")
    own = MutualTls(TlsFiles(f"{tmp_path}/own.crt", f"{tmp_path}/own.key", f"{tmp_path}/ca.crt"))
    async with (
        replica(authority, tmp_path, EXTENDER_SERVER_NAME) as extender,
        replica(authority, tmp_path, "node-a") as stranger,
        Peers(lambda: own.client) as peers,
    ):
        assert await peers.post(extender, "/bind", b"{}") == b"bound"
        with pytest.raises(ApiError, match="certificate is not valid for") as caught:
            await peers.post(stranger, "/bind", b"{}")
        assert caught.value.reason == "Unreachable"
