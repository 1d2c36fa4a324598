"""The server of the webhook: its flags, and a certificate that is replaced while it runs."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from gpushare.errors import ConfigError
from gpushare.extender.webhook import ServerCertificate, command, routes, settings_of
from gpushare.runtime.listener import bind_socket
from gpushare.runtime.server import HttpServer
from testbed.control_plane.pki import Authority
from tests.support.waiting import until


def flags(*given: str) -> dict[str, Any]:
    return dict(command.make_context("scheduler-name", ["--scheduler-name=s", *given]).params)


def test_without_a_certificate_it_does_not_start() -> None:
    assert settings_of(flags("--tls-cert=c", "--tls-key=k")).scheduler == "s"
    with pytest.raises(ConfigError, match="--tls-cert and --tls-key are needed"):
        settings_of(flags("--tls-cert=c"))


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[int]:
    """The port of a server with the certificate in this folder."""
    certificate = ServerCertificate(str(folder / "tls.crt"), str(folder / "tls.key"), reload_s=0.01)
    listener = bind_socket("127.0.0.1", 0)
    server = HttpServer(routes("s"), max_body=0, tls=certificate.tls)
    jobs = [asyncio.create_task(each) for each in (certificate.run(), server.serve(listener))]
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


async def test_a_new_certificate_is_served_and_a_broken_one_is_not(tmp_path: Path) -> None:
    old, new = Authority.create("old"), Authority.create("new")
    old.server("webhook", ["127.0.0.1"]).write(tmp_path, "tls")
    async with running(tmp_path) as port:
        assert await served_by(port, old)
        with capture_logs() as logs:
            (tmp_path / "tls.crt").write_text("broken")
            await until(lambda: bool(logs))
            assert [each["event"] for each in logs] == ["certificate_not_renewed"]
            assert await served_by(port, old)
            new.server("webhook", ["127.0.0.1"]).write(tmp_path, "tls")
            await until(lambda: logs[-1]["event"] == "certificate_served")
        assert await served_by(port, new)
