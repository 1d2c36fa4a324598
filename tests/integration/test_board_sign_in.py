"""The recipe of ``examples/board-oauth2-proxy``: users sign in at an OIDC provider and see the board.

The API server, oauth2-proxy and the board are real, with the flags and files of the example; the provider is
a FAKE.
"""

import json
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
import yaml
from aiohttp import web

from components.manifests import viewers
from components.render import as_yaml
from devkit.ports import LOOPBACK, free_ports
from devkit.waiting import until
from testbed import Bed, Testbed
from testbed.control_plane.components import url_ready
from testbed.control_plane.pki import Authority
from testbed.control_plane.scheduler import SchedulerSpec
from testbed.programs.build import ensure
from tests.support.fakes.oidc_issuer import PASSWORD, Issuer, OidcClient
from tests.support.fixtures.boards import BoardServer, start_board_server

pytestmark = pytest.mark.asyncio(loop_scope="module")

EXAMPLE = Path(__file__).parents[2] / "examples/board-oauth2-proxy"
COOKIE_SECRET = "0123456789abcdef0123456789abcdef"  # noqa: S105 - of a test
USERS = {"ada@example.com": ["ml-platform"], "bob@example.com": ["ml"]}
VIEWERS = "oidc:ml-platform"


@dataclass
class Site:
    """What a browser sees. ``tls`` trusts the certificates of all servers."""

    bed: Bed
    issuer: Issuer
    board: BoardServer
    proxy_url: str
    tls: ssl.SSLContext


def server_context(authority: Authority, folder: Path, name: str) -> ssl.SSLContext:
    authority.server(name, ["localhost", LOOPBACK]).write(folder, name)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / f"{name}.crt", folder / f"{name}.key")
    return context


@asynccontextmanager
async def provider(folder: Path, authority: Authority, redirect_url: str) -> AsyncIterator[Issuer]:
    """The provider with TLS, as the API server requires it."""
    (port,) = free_ports(1)
    client = OidcClient("gpushare-board", "of the client", redirect_url)
    issuer = Issuer(client, USERS, f"https://{LOOPBACK}:{port}")
    runner = web.AppRunner(issuer.application())
    await runner.setup()
    await web.TCPSite(runner, LOOPBACK, port, ssl_context=server_context(authority, folder, "idp")).start()
    try:
        yield issuer
    finally:
        await runner.cleanup()


def authentication(issuer: Issuer, authority: Authority) -> str:
    """The file of the example with the URL and the CA of the provider."""
    document = yaml.safe_load((EXAMPLE / "authentication.yaml").read_text())
    (jwt,) = document["jwt"]
    assert jwt["issuer"]["audiences"] == [issuer.client.name]
    jwt["issuer"] |= {"url": issuer.url, "certificateAuthority": authority.pair().cert.decode()}
    return json.dumps(document)


def proxy_arguments(changes: Mapping[str, str]) -> list[str]:
    """The arguments of the example, some with the addresses and files of this test."""
    documents = yaml.safe_load_all((EXAMPLE / "oauth2-proxy.yaml").read_text())
    (deployment,) = [each for each in documents if each["kind"] == "Deployment"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    flags = dict(argument.split("=", 1) for argument in container["args"])
    assert set(changes) <= set(flags)
    return [f"{flag}={changes.get(flag, value)}" for flag, value in flags.items()]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    folder = tmp_path_factory.mktemp("sign-in")
    authority = Authority.create("sign-in")
    (port,) = free_ports(1)
    proxy_url = f"https://{LOOPBACK}:{port}"
    redirect_url = f"{proxy_url}/oauth2/callback"
    async with provider(folder, authority, redirect_url) as issuer:
        config = folder / "authentication.json"
        config.write_text(authentication(issuer, authority))
        flags = [f"--authentication-config={config}"]
        async with Testbed(kwok=False, scheduler=SchedulerSpec(None), api_flags=flags) as bed:
            await bed.until_service_account("kube-system")
            await bed.apply(as_yaml(viewers.objects([VIEWERS])))
            board = await start_board_server(bed)
            (folder / "ca").mkdir()
            (folder / "ca/all.crt").write_bytes(authority.pair().cert + bed.ca_file.read_bytes())
            await start_proxy(bed, folder, authority, issuer, board.url, port)
            tls = ssl.create_default_context(cadata=(folder / "ca/all.crt").read_text())
            yield Site(bed, issuer, board, proxy_url, tls)


async def start_proxy(
    bed: Bed, folder: Path, authority: Authority, issuer: Issuer, board_url: str, port: int
) -> None:
    authority.server("proxy", [LOOPBACK]).write(folder, "proxy")
    (folder / "client-secret").write_text(issuer.client.secret)
    (folder / "cookie-secret").write_text(COOKIE_SECRET)
    arguments = proxy_arguments(
        {
            "--oidc-issuer-url": issuer.url,
            "--client-secret-file": f"{folder}/client-secret",
            "--cookie-secret-file": f"{folder}/cookie-secret",
            "--redirect-url": issuer.client.redirect_url,
            "--upstream": board_url,
            "--cookie-refresh": "1s",
            "--https-address": f"{LOOPBACK}:{port}",
            "--tls-cert-file": f"{folder}/proxy.crt",
            "--tls-key-file": f"{folder}/proxy.key",
        }
    )
    program = (await ensure(["oauth2-proxy"]))["oauth2-proxy"].path
    tls = ssl.create_default_context(cadata=authority.pair().cert.decode())
    ready = url_ready(f"https://{LOOPBACK}:{port}/ready", tls)
    await bed.spawn(
        "oauth2-proxy", [str(program), *arguments], ready=ready, env={"SSL_CERT_DIR": f"{folder}/ca"}
    )


@asynccontextmanager
async def browser(site: Site) -> AsyncIterator[aiohttp.ClientSession]:
    """A client that keeps cookies and follows redirects, as a browser does."""
    connector = aiohttp.TCPConnector(ssl=site.tls)
    async with aiohttp.ClientSession(
        connector=connector, cookie_jar=aiohttp.CookieJar(unsafe=True)
    ) as session:
        yield session


async def sign_in(site: Site, session: aiohttp.ClientSession, email: str) -> tuple[int, str, str]:
    """Open the board, fill in the form of the provider; status, URL and page where that ends."""
    async with session.get(f"{site.proxy_url}/") as form:
        assert str(form.url).startswith(f"{site.issuer.url}/authorize?"), await form.text()
        target = form.url
    async with session.post(target, data={"email": email, "password": PASSWORD}) as page:
        return page.status, str(page.url), await page.text()


async def data(site: Site, session: aiohttp.ClientSession, **headers: str) -> tuple[int, Any]:
    async with session.get(f"{site.proxy_url}/data", headers=headers) as response:
        return response.status, await response.text()


async def test_a_user_with_the_rights_signs_in_and_sees_the_board(site: Site) -> None:
    async with browser(site) as session:
        status, url, page = await sign_in(site, session, "ada@example.com")
        assert (status, url) == (200, f"{site.proxy_url}/")
        assert "Sign in" not in page
        status, text = await data(site, session)
        assert status == 200
        assert "nodes" in json.loads(text)


async def test_the_token_is_renewed_while_the_page_is_open(site: Site) -> None:
    async with browser(site) as session:
        await sign_in(site, session, "ada@example.com")
        before = site.issuer.renewals

        async def renewed() -> bool:
            assert (await data(site, session))[0] == 200
            return site.issuer.renewals > before

        await until(renewed, "a new ID token", 20, 0.2)
        assert (await data(site, session))[0] == 200


async def test_the_api_server_accepts_the_manifests_without_a_warning(site: Site) -> None:
    documents = list(yaml.safe_load_all((EXAMPLE / "oauth2-proxy.yaml").read_text()))
    await site.bed.apply(as_yaml([each for each in documents if each["kind"] == "Namespace"]))
    command = ["apply", "--dry-run=server", "--warnings-as-errors", "-f", str(EXAMPLE / "oauth2-proxy.yaml")]
    answer = await site.bed.kubectl(*command)
    assert len(answer.splitlines()) == len(documents)


async def test_a_user_without_the_rights_gets_the_reason(site: Site) -> None:
    async with browser(site) as session:
        status, _, page = await sign_in(site, session, "bob@example.com")
        assert status == 403
        assert "oidc:bob@example.com may not list nodes, which the board shows" in page
        assert (await data(site, session))[0] == 403


async def test_nothing_is_shown_before_the_sign_in(site: Site) -> None:
    async with (
        browser(site) as session,
        session.get(f"{site.proxy_url}/data", allow_redirects=False) as reply,
    ):
        assert reply.status in (302, 401, 403)
        assert "nodes" not in await reply.text()


async def test_a_header_of_the_browser_does_not_reach_the_board(site: Site) -> None:
    of_ada = site.issuer.id_token("ada@example.com")
    assert (await site.board.get("/data", of_ada))[0] == 200
    async with browser(site) as session:
        await sign_in(site, session, "bob@example.com")
        assert (await data(site, session, authorization=f"Bearer {of_ada}"))[0] == 403


async def test_the_board_refuses_an_expired_token(site: Site) -> None:
    expired = site.issuer.id_token("ada@example.com", life_s=-60)
    assert (await site.board.get("/data", expired))[0] == 401
