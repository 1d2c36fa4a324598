"""Certificates that are replaced while a server runs."""

import asyncio
import math
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from gpushare.errors import ConfigError
from gpushare.runtime.certificates import expiry_of
from gpushare.runtime.http import Handler, Request, Response, text_response
from gpushare.runtime.listener import bind_socket
from gpushare.runtime.server import HttpServer
from gpushare.runtime.settings import TlsFiles
from gpushare.runtime.tls import MutualTls, ServerTls
from testbed.control_plane.pki import Authority
from tests.support.waiting import until


def write(folder: Path, authority: Authority, name: str) -> TlsFiles:
    """A certificate for servers and clients, as extenders have it."""
    authority.server(name, ["127.0.0.1"]).write(folder, "tls")
    (folder / "ca.crt").write_bytes(authority.pair().cert)
    return TlsFiles(str(folder / "tls.crt"), str(folder / "tls.key"), str(folder / "ca.crt"))


@dataclass
class Running:
    """A server with mutual TLS, and a folder with a client's certificate."""

    port: int
    tls: MutualTls
    client: Path

    async def connect(self, authority: Authority) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection with a client certificate of this authority."""
        authority.client("scheduler").write(self.client, "client")
        context = ssl.create_default_context(cadata=authority.pair().cert.decode())
        context.load_cert_chain(self.client / "client.crt", self.client / "client.key")
        return await asyncio.open_connection("127.0.0.1", self.port, ssl=context)

    async def name_of_server(self, authority: Authority) -> str:
        """The name in the certificate of the server, for a client of this authority."""
        reader, writer = await self.connect(authority)
        try:
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert b"200 OK" in await reader.read()
            subject = dict(part[0] for part in writer.get_extra_info("peercert")["subject"])
            return str(subject["commonName"])
        finally:
            writer.close()


@asynccontextmanager
async def running(
    folder: Path,
    files: TlsFiles,
    handler: Handler = lambda _: text_response("ok"),
    *,
    authenticated_s: float = 60,
) -> AsyncIterator[Running]:
    tls = MutualTls(files, reload_s=0.01)
    listener = bind_socket("127.0.0.1", 0)
    server = HttpServer(handler, max_body=0, tls=tls.server, authenticated_s=authenticated_s)
    jobs = [asyncio.create_task(tls.run()), asyncio.create_task(server.serve(listener))]
    (folder / "client").mkdir()
    try:
        yield Running(listener.getsockname()[1], tls, folder / "client")
    finally:
        server.stop()
        jobs[0].cancel()
        await asyncio.gather(*jobs, return_exceptions=True)


async def test_a_new_certificate_and_a_new_authority_are_used_without_a_restart(tmp_path: Path) -> None:
    first, second = Authority.create("first"), Authority.create("second")
    async with running(tmp_path, write(tmp_path, first, "old")) as server:
        assert await server.name_of_server(first) == "old"
        before = server.tls.client
        with capture_logs() as logs:
            write(tmp_path, second, "new")
            await until(lambda: [entry for entry in logs if entry["event"] == "certificate_served"])
        assert await server.name_of_server(second) == "new"
        assert server.tls.client is not before
        assert server.tls.expires_at == expiry_of((tmp_path / "tls.crt").read_text())
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await server.name_of_server(first)


async def test_a_client_without_a_certificate_gets_no_answer(tmp_path: Path) -> None:
    authority, seen = Authority.create("ca"), list[Request]()

    def handler(request: Request) -> Response:
        seen.append(request)
        return text_response("ok")

    async with running(tmp_path, write(tmp_path, authority, "extender"), handler) as server:
        context = ssl.create_default_context(cadata=authority.pair().cert.decode())
        answer = b""
        # With TLS 1.3 the handshake of the client ends before the server has checked its certificate.
        with suppress(ssl.SSLError, ConnectionError):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=context)
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            answer = await reader.read()
        assert (answer, seen) == (b"", [])


async def test_files_that_cannot_be_used_change_nothing_and_are_logged_once(tmp_path: Path) -> None:
    authority = Authority.create("ca")
    async with running(tmp_path, write(tmp_path, authority, "old")) as server:
        with capture_logs() as logs:
            (tmp_path / "tls.crt").write_text("half")
            await until(lambda: logs)
            await asyncio.sleep(0.05)
        assert [entry["event"] for entry in logs] == ["certificate_not_renewed"]
        assert await server.name_of_server(authority) == "old"


def test_files_that_cannot_be_used_at_the_start_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="TLS files"):
        MutualTls(TlsFiles(str(tmp_path / "a"), str(tmp_path / "b"), str(tmp_path / "c")))


@pytest.mark.parametrize(
    ("cert", "key", "reason"),
    [
        ("text", None, "not a certificate and its key in PEM"),
        (None, "other", "the key is not that of the certificate"),
    ],
)
def test_the_error_says_what_is_wrong_with_the_files(
    tmp_path: Path, cert: str | None, key: str | None, reason: str
) -> None:
    authority = Authority.create("ca")
    files = write(tmp_path, authority, "server")
    if cert:
        Path(files.cert).write_text(cert)
    if key:
        (tmp_path / "b").mkdir()
        files = replace(files, key=write(tmp_path / "b", authority, "b").key)
    with pytest.raises(ConfigError, match=f"^TLS files {files.cert}, .*: {reason}$"):
        MutualTls(files)


def test_a_certificate_whose_end_cannot_be_read_is_served_all_the_same(tmp_path: Path) -> None:
    files = write(tmp_path, Authority.create("ca"), "server")
    der = ssl.PEM_cert_to_DER_cert(Path(files.cert).read_text())
    indefinite = b"\x30\x80" + der[4:] + b"\x00\x00"  # a length that BER allows, and OpenSSL accepts
    Path(files.cert).write_text(ssl.DER_cert_to_PEM_cert(indefinite))
    with capture_logs() as logs:
        for tls in (MutualTls(files), ServerTls(files.cert, files.key)):
            assert math.isnan(tls.expires_at)
    assert [entry["event"] for entry in logs] == ["certificate_end_unknown"] * 2


async def test_a_request_has_the_certificate_of_its_client(tmp_path: Path) -> None:
    authority, seen = Authority.create("ca"), list[Request]()

    def handle(request: Request) -> Response:
        seen.append(request)
        return text_response("ok")

    async with running(tmp_path, write(tmp_path, authority, "extender"), handle) as server:
        await server.name_of_server(authority)
    certificate = seen[0].certificate
    assert certificate is not None
    assert certificate.names == ("scheduler",)
    assert certificate.expires_at == expiry_of((tmp_path / "client" / "client.crt").read_text())


async def test_a_connection_ends_with_a_response_when_its_certificate_was_verified_long_ago(
    tmp_path: Path,
) -> None:
    authority = Authority.create("ca")
    files = write(tmp_path, authority, "extender")
    async with running(tmp_path, files, authenticated_s=0) as server:
        reader, writer = await server.connect(authority)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        answer = await reader.read()
        writer.close()
    assert b"200 OK" in answer
    assert b"connection: close" in answer


@asynccontextmanager
async def without_clients(folder: Path) -> AsyncIterator[int]:
    """The port of a server with the certificate in this folder, which asks for no client certificate."""
    tls = ServerTls(str(folder / "tls.crt"), str(folder / "tls.key"), reload_s=0.01)
    listener = bind_socket("127.0.0.1", 0)
    server = HttpServer(lambda _: text_response("ok"), max_body=0, tls=tls.context)
    jobs = [asyncio.create_task(each) for each in (tls.run(), server.serve(listener))]
    try:
        yield listener.getsockname()[1]
    finally:
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)


async def served_by(port: int, authority: Authority) -> bool:
    """Whether the certificate of the server is from this authority."""
    context = ssl.create_default_context(cadata=authority.pair().cert.decode())
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    except ssl.SSLError:
        return False
    writer.close()
    return True


async def test_a_server_for_any_client_serves_a_new_certificate_and_no_broken_one(tmp_path: Path) -> None:
    old, new = Authority.create("old"), Authority.create("new")
    old.server("webhook", ["127.0.0.1"]).write(tmp_path, "tls")
    async with without_clients(tmp_path) as port:
        assert await served_by(port, old)
        with capture_logs() as logs:
            (tmp_path / "tls.crt").write_text("broken")
            await until(lambda: bool(logs))
            assert [each["event"] for each in logs] == ["certificate_not_renewed"]
            assert await served_by(port, old)
            new.server("webhook", ["127.0.0.1"]).write(tmp_path, "tls")
            await until(lambda: logs[-1]["event"] == "certificate_served")
        assert await served_by(port, new)


def test_text_of_any_encoding_may_stand_before_the_certificate(tmp_path: Path) -> None:
    files = write(tmp_path, Authority.create("ca"), "extender")
    expiry = MutualTls(files).expires_at
    path = tmp_path / "tls.crt"
    path.write_bytes(b"Z\xfcrich\n" + path.read_bytes())
    assert MutualTls(files).expires_at == expiry
