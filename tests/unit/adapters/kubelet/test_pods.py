"""The kubelet's list of pods over real TLS."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web

from gpushare.adapters.kubelet.pods import KubeletAccess, check_access, fetch_pods
from gpushare.errors import ConfigError, KubeletError
from testbed.control_plane.pki import Authority

PODS = b'{"kind":"PodList","items":[]}'
CA = Authority.create("ca")


async def answer(request: web.Request) -> web.Response:
    if request.path != "/pods":
        return web.Response(status=404)
    certificate = request.transport and request.transport.get_extra_info("peercert")
    if request.headers.get("Authorization") != "Bearer good" and not certificate:
        return web.Response(status=401, text="Unauthorized")
    return web.Response(body=PODS)


async def silence(_: web.Request) -> web.Response:
    await asyncio.Event().wait()
    raise AssertionError


@asynccontextmanager
async def kubelet(
    folder: Path, handler: object = answer, *, host: str = "127.0.0.1"
) -> AsyncIterator[KubeletAccess]:
    """A server with the certificate that a kubelet would have; access to it with the right token."""
    (folder / "ca.crt").write_bytes(CA.pair().cert)
    CA.server("system:node:n", [host]).write(folder, "kubelet")
    CA.client("agent").write(folder, "agent")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "kubelet.crt", folder / "kubelet.key")
    context.load_verify_locations(folder / "ca.crt")
    context.verify_mode = ssl.CERT_OPTIONAL
    app = web.Application()
    app.router.add_get("/{path:.*}", handler)  # type: ignore[arg-type]
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
    try:
        yield KubeletAccess("127.0.0.1", port, ca_file=folder / "ca.crt", token="good")  # noqa: S106 - a test's
    finally:
        await runner.cleanup()


async def test_a_token_opens_the_list(tmp_path: Path) -> None:
    async with kubelet(tmp_path) as access:
        assert await fetch_pods(access) == PODS


async def test_a_token_file_is_read_for_each_request(tmp_path: Path) -> None:
    token = tmp_path / "token"
    async with kubelet(tmp_path) as with_token:
        access = replace(with_token, token="", token_file=token)
        token.write_text("old\n")
        with pytest.raises(KubeletError, match=r"127\.0\.0\.1:\d+/pods: HTTP 401: Unauthorized"):
            await fetch_pods(access)
        token.write_text("good\n")
        assert await fetch_pods(access) == PODS


async def test_a_client_certificate_opens_the_list(tmp_path: Path) -> None:
    async with kubelet(tmp_path) as access:
        cert, key = tmp_path / "agent.crt", tmp_path / "agent.key"
        assert await fetch_pods(replace(access, token="", client_cert=cert, client_key=key)) == PODS


async def test_a_certificate_of_another_authority_is_refused_unless_configured(tmp_path: Path) -> None:
    (tmp_path / "other.crt").write_bytes(Authority.create("other").pair().cert)
    async with kubelet(tmp_path) as access:
        with pytest.raises(KubeletError, match="is not trusted"):
            await fetch_pods(replace(access, ca_file=tmp_path / "other.crt"))
        assert await fetch_pods(replace(access, ca_file=tmp_path / "other.crt", insecure=True)) == PODS


async def test_a_certificate_for_another_name_is_refused_unless_that_name_is_expected(tmp_path: Path) -> None:
    async with kubelet(tmp_path, host="gpu-node-1") as access:
        with pytest.raises(KubeletError, match=r"not valid for '127\.0\.0\.1'"):
            await fetch_pods(access)
        assert await fetch_pods(replace(access, server_name="gpu-node-1")) == PODS


async def test_a_kubelet_that_does_not_respond_times_out(tmp_path: Path) -> None:
    async with kubelet(tmp_path, silence) as access:
        with pytest.raises(KubeletError, match=r"/pods: no response in 0\.1 s"):
            await fetch_pods(replace(access, timeout_s=0.1))


async def test_a_port_without_a_server_is_an_error(tmp_path: Path) -> None:
    async with kubelet(tmp_path) as access:
        pass
    with pytest.raises(KubeletError, match=r"https://127\.0\.0\.1:\d+/pods: cannot connect"):
        await fetch_pods(access)


NONE = Path("/none")


@pytest.mark.parametrize(
    "access",
    [
        KubeletAccess("127.0.0.1", ca_file=NONE),
        KubeletAccess("127.0.0.1", insecure=True, client_cert=NONE),
        KubeletAccess("127.0.0.1", insecure=True, token_file=NONE),
    ],
    ids=["CA", "client certificate", "token"],
)
async def test_a_file_that_is_not_there_is_named(access: KubeletAccess) -> None:
    with pytest.raises(ConfigError, match="/none"):
        await fetch_pods(access)


def test_an_ipv6_address_is_bracketed() -> None:
    assert KubeletAccess("fd00::1").url == "https://[fd00::1]:10250/pods"


@pytest.mark.parametrize("content", [b"", b"\n", b"\xff\xfe", b"two\nlines"])
async def test_a_token_file_without_a_token_is_named(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    access = KubeletAccess("127.0.0.1", insecure=True, token_file=file)
    with pytest.raises(ConfigError, match=f"token of the kubelet: {file}: "):
        check_access(access)
    with pytest.raises(ConfigError, match=f"token of the kubelet: {file}: "):
        await fetch_pods(access)
