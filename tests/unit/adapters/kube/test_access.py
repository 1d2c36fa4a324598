"""Server verification and client authentication over real TLS."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web

from gpushare.adapters.kube import client as client_module
from gpushare.adapters.kube.access import ApiAccess
from gpushare.adapters.kube.client import KubeClient
from gpushare.errors import ApiError, ConfigError
from testbed.control_plane.pki import Authority

CA = Authority.create("ca")
EXPIRED = "expired"


async def name_of_the_client(request: web.Request) -> web.Response:
    certificate = request.transport and request.transport.get_extra_info("peercert")
    name = certificate["subject"][-1][0][1] if certificate else "anonymous"
    return web.Response(text=name, status=401 if name == EXPIRED else 200)


@asynccontextmanager
async def api_server(
    folder: Path, host: str = "127.0.0.1", *, ca: Authority = CA, port: int = 0
) -> AsyncIterator[ApiAccess]:
    (folder / "ca.crt").write_bytes(ca.pair().cert)
    ca.server("api", [host]).write(folder, "server")
    ca.client("me").write(folder, "me")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.crt", folder / "server.key")
    context.load_verify_locations(folder / "ca.crt")
    context.verify_mode = ssl.CERT_OPTIONAL
    app = web.Application()
    app.router.add_get("/name", name_of_the_client)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, ssl_context=context).start()
    try:
        yield ApiAccess(host=f"https://127.0.0.1:{runner.addresses[0][1]}", ca=folder / "ca.crt")
    finally:
        await runner.cleanup()


async def name(access: ApiAccess) -> bytes:
    async with KubeClient(access) as client:
        return await client.request("GET", "/name", timeout_s=5)


async def test_a_client_certificate_is_shown_where_there_is_one(tmp_path: Path) -> None:
    async with api_server(tmp_path) as access:
        assert await name(access) == b"anonymous"
        mine = replace(access, cert=tmp_path / "me.crt", key=tmp_path / "me.key")
        assert await name(mine) == b"me"


async def test_a_client_certificate_that_is_rejected_is_read_again(tmp_path: Path) -> None:
    async def is_rejected() -> bool:
        with pytest.raises(ApiError, match=EXPIRED):
            await client.request("GET", "/name", timeout_s=5)
        return True

    CA.client(EXPIRED).write(tmp_path, "mine")
    async with api_server(tmp_path) as access:
        mine = replace(access, cert=tmp_path / "mine.crt", key=tmp_path / "mine.key")
        async with KubeClient(mine) as client:
            assert await is_rejected()
            (tmp_path / "mine.crt").write_text("half")
            assert await is_rejected()
            CA.client("me").write(tmp_path, "mine")
            assert await is_rejected()
            assert await client.request("GET", "/name", timeout_s=5) == b"me"


async def test_a_server_of_another_authority_is_refused_unless_configured(tmp_path: Path) -> None:
    (tmp_path / "other.crt").write_bytes(Authority.create("other").pair().cert)
    async with api_server(tmp_path) as access:
        other = replace(access, ca=tmp_path / "other.crt")
        with pytest.raises(ApiError, match="is not trusted"):
            await name(other)
        assert await name(replace(other, verify=False)) == b"anonymous"


async def test_a_server_of_another_name_is_refused_unless_that_name_is_expected(tmp_path: Path) -> None:
    async with api_server(tmp_path, "api.test") as access:
        with pytest.raises(ApiError, match=r"not valid for '127\.0\.0\.1'"):
            await name(access)
        assert await name(replace(access, tls_server_name="api.test")) == b"anonymous"


@asynccontextmanager
async def tls_proxy(folder: Path, authority: Authority) -> AsyncIterator[str]:
    """A proxy with a certificate of that authority; it answers CONNECT."""

    async def copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while content := await source.read(2**16):
                sink.write(content)
                await sink.drain()
        sink.close()

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, target, _ = (await reader.readuntil(b"\r\n\r\n")).split(b" ", 2)
        host, _, port = target.decode().rpartition(":")
        there, back = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
        await asyncio.gather(copy(reader, back), copy(there, writer))

    authority.server("proxy", ["127.0.0.1"]).write(folder, "proxy")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "proxy.crt", folder / "proxy.key")
    server = await asyncio.start_server(connect, "127.0.0.1", 0, ssl=context)
    async with server:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_a_proxy_with_tls_is_verified_as_the_api_server_is(tmp_path: Path) -> None:
    async with api_server(tmp_path) as access:
        async with tls_proxy(tmp_path, CA) as proxy:
            assert await name(replace(access, proxy=proxy)) == b"anonymous"
        async with tls_proxy(tmp_path, Authority.create("other")) as proxy:
            with pytest.raises(ApiError, match="is not trusted"):
                await name(replace(access, proxy=proxy))


def test_all_files_are_named_where_one_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_bytes(CA.pair().cert)
    ca, cert, key = (tmp_path / each for each in ("ca.crt", "me.crt", "me.key"))
    with pytest.raises(ConfigError, match=f"^TLS files {ca}, {cert}, {key}: "):
        ApiAccess(host="https://localhost", ca=ca, cert=cert, key=key).ssl_context()


async def test_a_client_trusts_the_new_authority_of_its_api_server(tmp_path: Path) -> None:
    """An administrator rotates it; the kubelet keeps the mounted file current."""
    async with api_server(tmp_path) as access:
        client = KubeClient(access)
        await client.request("GET", "/name", timeout_s=5)
    port = int(access.host.rpartition(":")[2])
    async with client, api_server(tmp_path, ca=Authority.create("new"), port=port):
        (current := tmp_path / "ca.crt").rename(tmp_path / "later.crt")
        current.write_text("half")
        with pytest.raises(ApiError, match="is not trusted"):
            await client.request("GET", "/name", timeout_s=5)
        with pytest.raises(ApiError, match="is not trusted"):
            await client.request("GET", "/name", timeout_s=5)
        (tmp_path / "later.crt").rename(current)
        assert await client.request("GET", "/name", timeout_s=5) == b"anonymous"


async def test_an_authority_that_is_no_longer_trusted_is_not_trusted_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "_CA_S", 0.0)
    async with api_server(tmp_path) as access, KubeClient(access) as client:
        await client.request("GET", "/name", timeout_s=5)
        (tmp_path / "ca.crt").write_bytes(Authority.create("new").pair().cert)
        with pytest.raises(ApiError, match="is not trusted"):
            await client.request("GET", "/name", timeout_s=5)
