"""Fields of a kubeconfig that concern the connection, as kubectl uses them."""

import asyncio
import base64
import json
import os
import signal
import ssl
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from gpushare.adapters.kube import exec_plugin
from gpushare.adapters.kube.access import ApiAccess
from gpushare.adapters.kube.config import load_access
from gpushare.adapters.kube.exec_plugin import ExecCredentials, RenewedToken
from gpushare.errors import ConfigError
from testbed.control_plane.pki import Authority
from tests.support.waiting import until
from tests.unit.adapters.kube.kubeconfigs import written

CA = Authority.create("ca")
CA_SUBJECT = ((("commonName", "ca"),),)
OTHER = Authority.create("other")
VERSION = "client.authentication.k8s.io/v1"


@pytest.fixture(autouse=True)
def without_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)


def b64(content: bytes) -> str:
    return base64.b64encode(content).decode()


async def access(folder: Path, user: dict[str, Any], cluster: dict[str, Any] | None = None) -> ApiAccess:
    return await load_access(written(folder / "config", cluster or {}, user))


async def why(folder: Path, user: dict[str, Any], cluster: dict[str, Any] | None = None) -> str:
    """The error, without the file and the context, which all errors name."""
    with pytest.raises(ConfigError) as caught:
        await access(folder, user, cluster)
    prefix = f"kubeconfig {folder / 'config'}: context 'main': "
    assert str(caught.value).startswith(prefix)
    return str(caught.value).removeprefix(prefix)


async def test_settings_of_the_cluster(tmp_path: Path) -> None:
    cluster = {
        "server": "https://api.test:6443/k8s/",
        "tls-server-name": "other.test",
        "proxy-url": "http://proxy.test:3128",
        "insecure-skip-tls-verify": True,
    }
    made = await access(tmp_path, {}, cluster)
    assert (made.host, made.tls_server_name, made.proxy, made.verify) == (
        "https://api.test:6443/k8s",
        "other.test",
        "http://proxy.test:3128",
        False,
    )
    assert made.ssl_context().verify_mode is ssl.CERT_NONE


async def test_certificates_are_files_beside_the_kubeconfig(tmp_path: Path) -> None:
    CA.pair().write(tmp_path, "ca")
    CA.client("me").write(tmp_path, "me")
    user = {"client-certificate": "me.crt", "client-key": "me.key"}
    made = await access(tmp_path, user, {"certificate-authority": "ca.crt"})
    assert (made.ca, made.cert, made.key) == tuple(tmp_path / name for name in ("ca.crt", "me.crt", "me.key"))
    assert trusted_by(made) == [CA_SUBJECT]
    assert (await access(tmp_path, user)).verify


async def test_certificates_as_data_override_files_and_leave_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    mine = CA.client("me")
    user = {
        "client-certificate": "none",
        "client-certificate-data": b64(mine.cert),
        "client-key-data": b64(mine.key),
    }
    data = "# Zürich\n".encode() + CA.pair().cert
    cluster = {"certificate-authority": "none", "certificate-authority-data": b64(data)}
    made = await access(tmp_path, user, cluster)
    assert (made.ca, made.cert, made.key) == (data, mine.cert, mine.key)
    assert trusted_by(made) == [CA_SUBJECT]
    assert [*temporary.iterdir()] == []


def trusted_by(made: ApiAccess) -> list[object]:
    """The subjects of the trusted CAs."""
    return [certificate["subject"] for certificate in made.ssl_context().get_ca_certs()]


async def test_certificates_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    mine, other = CA.client("me"), OTHER.client("you")
    text = await why(tmp_path, {}, {"certificate-authority": "ca.crt"})
    assert text.startswith(f"TLS files {tmp_path / 'ca.crt'}: ")
    user = {"client-certificate-data": b64(mine.cert), "client-key-data": b64(other.key)}
    assert (await why(tmp_path, user)).startswith("TLS files (cert as data), (key as data): ")
    assert (await why(tmp_path, {"client-key-data": "-"})).startswith("data of 'u' is not base64: ")
    asks = {"exec": {"apiVersion": VERSION, "command": "none", "provideClusterInfo": True}}
    text = await why(tmp_path, asks, {"certificate-authority": "ca.crt"})
    assert text == f"{tmp_path / 'ca.crt'}: No such file or directory"


@pytest.mark.parametrize(
    ("user", "header"),
    [
        ({}, None),
        ({"token": "secret"}, "Bearer secret"),
        ({"tokenFile": "token"}, "Bearer of a file"),
        ({"tokenFile": "token", "token": "older"}, "Bearer of a file"),
        ({"token": "secret", "exec": {"apiVersion": VERSION, "command": "not-run"}}, "Bearer secret"),
        ({"username": "me", "password": "pass"}, "Basic bWU6cGFzcw=="),
    ],
)
async def test_a_user_authenticates(tmp_path: Path, user: dict[str, Any], header: str | None) -> None:
    (tmp_path / "token").write_text("of a file\n")
    made = await access(tmp_path, user)
    assert await made.authorization() == header
    assert made.verify


@pytest.mark.parametrize(
    ("user", "reason"),
    [
        ({"tokenFile": "none"}, "No such file or directory"),
        ({"tokenFile": "lines"}, "lines: the token has characters that no token has, such as the end of"),
        ({"token": "a\nb"}, "the token has characters that no token has, such as the end of a line"),
        (
            {"as": "root", "token": "x"},
            "user 'u' impersonates 'root' (as), which gpushare does not do: select",
        ),
        ({"auth-provider": {"name": "oidc"}}, "auth-provider 'oidc' is not supported, nor is it by kubectl"),
    ],
)
async def test_credentials_that_cannot_be_used(tmp_path: Path, user: dict[str, Any], reason: str) -> None:
    (tmp_path / "lines").write_text("a\nb")
    assert reason in await why(tmp_path, user)


@pytest.mark.parametrize(
    "server",
    ["", "host", "ftp://host", "https://host:99999", "https://host:x", "https://[::1", "https://a b"],
)
async def test_a_server_that_is_no_url_is_an_error(tmp_path: Path, server: str) -> None:
    text = await why(tmp_path, {}, {"server": server})
    assert text == f"server {server!r} is not like https://host:6443"


@pytest.mark.parametrize("url", ["socks5://proxy:1080", "http://", "http://[", "http://u:secret@proxy:x"])
async def test_a_proxy_that_cannot_be_used_is_an_error_without_its_password(tmp_path: Path, url: str) -> None:
    text = await why(tmp_path, {}, {"proxy-url": url})
    assert text.startswith("proxy-url of the cluster is not like http://host:3128")
    assert "secret" not in text


# --- exec plugins -------------------------------------------------------------------------------


def plugin(folder: Path, script: str, **fields: Any) -> dict[str, Any]:
    """A user with a plugin in the folder of the kubeconfig."""
    path = folder / "plugin"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o700)
    return {"exec": {"apiVersion": VERSION, "command": "./plugin", "interactiveMode": "Never"} | fields}


def answer(**status: str) -> str:
    document = {"apiVersion": VERSION, "kind": "ExecCredential", "status": status}
    return f"echo {json.dumps(json.dumps(document))}".replace("\\n", "\\\\n")


async def test_a_plugin_returns_a_token(tmp_path: Path) -> None:
    made = await access(tmp_path, plugin(tmp_path, answer(token="made")))  # noqa: S106 - not a password
    assert await made.authorization() == "Bearer made"


@pytest.mark.parametrize("mode", [None, ""])
async def test_null_and_empty_text_are_no_value(tmp_path: Path, mode: str | None) -> None:
    user = plugin(
        tmp_path,
        f'echo "<$A>" > {tmp_path}/variable; {answer(token="made")}',  # noqa: S106 - not a password
        env=[{"name": "A", "value": None}],
        provideClusterInfo=None,
        interactiveMode=mode,
    )
    made = await access(tmp_path, user, {"insecure-skip-tls-verify": None})
    assert (await made.authorization(), made.verify) == ("Bearer made", True)
    assert (tmp_path / "variable").read_text() == "<>\n"


async def test_a_plugin_returns_a_client_certificate(tmp_path: Path) -> None:
    mine = CA.client("me")
    status = {"clientCertificateData": mine.cert.decode(), "clientKeyData": mine.key.decode()}
    document = {"apiVersion": VERSION, "kind": "ExecCredential", "status": status}
    (tmp_path / "answer").write_text(json.dumps(document))
    made = await access(tmp_path, plugin(tmp_path, f"cat {tmp_path / 'answer'}"))
    assert (made.cert, made.key, await made.authorization()) == (mine.cert, mine.key, None)


async def test_a_plugin_gets_its_arguments_variables_and_the_cluster(tmp_path: Path) -> None:
    CA.pair().write(tmp_path, "ca")
    script = f'echo "$KUBERNETES_EXEC_INFO" > {tmp_path}/info; echo "$@ $REGION" > {tmp_path}/args; '
    user = plugin(
        tmp_path,
        script + answer(token="x"),  # noqa: S106 - not a password
        args=["get", "token"],
        env=[{"name": "REGION", "value": "eu"}],
        provideClusterInfo=True,
    )
    extensions = [{"name": "client.authentication.k8s.io/exec", "extension": {"audience": 7}}]
    await access(tmp_path, user, {"certificate-authority": "ca.crt", "extensions": extensions})
    assert (tmp_path / "args").read_text() == "get token eu\n"
    assert json.loads((tmp_path / "info").read_text()) == {
        "apiVersion": VERSION,
        "kind": "ExecCredential",
        "spec": {
            "interactive": False,
            "cluster": {
                "server": "https://api.test:6443",
                "certificate-authority-data": b64(CA.pair().cert),
                "config": {"audience": 7},
            },
        },
    }


@pytest.mark.parametrize(
    ("script", "fields", "reason"),
    [
        ("echo no account >&2; exit 3", {}, "failed with exit code 3: no account"),
        ("echo text", {}, "did not print an ExecCredential: "),
        (answer(), {}, "returned neither a token nor a client certificate"),
        (answer(clientKeyData="k"), {}, "returned only one of clientCertificateData and clientKeyData"),
        (answer(token="x"), {"apiVersion": f"{VERSION}beta1"}, f"returned apiVersion {VERSION}, configured"),  # noqa: S106
        (answer(token="x"), {"apiVersion": "v1"}, "apiVersion 'v1' is not like"),  # noqa: S106
        (answer(token="x"), {"interactiveMode": "Always"}, "standard input is not a terminal"),  # noqa: S106
        (
            "",
            {"command": "./none", "installHint": "See https://x"},
            "No such file or directory: See https://x",
        ),
    ],
)
async def test_a_plugin_that_fails_is_named_with_the_reason(
    tmp_path: Path, script: str, fields: dict[str, str], reason: str
) -> None:
    user = plugin(tmp_path, script, **fields)
    text = await why(tmp_path, user)
    assert text.startswith(f"exec plugin {tmp_path / user['exec']['command']}: ")
    assert reason in text


async def test_a_plugin_that_hangs_is_ended_together_with_its_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exec_plugin, "_TIMEOUT_S", 0.2)
    child = tmp_path / "child"
    user = plugin(tmp_path, f"sleep 600 & echo $! > {child}; wait")
    async with asyncio.timeout(20):
        assert await why(tmp_path, user) == f"exec plugin {tmp_path / 'plugin'}: did not end within 0.2 s"
    await until(lambda: not is_running(int(child.read_text())))


async def test_a_program_that_leaves_its_plugin_does_not_hold_it_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exec_plugin, "_TIMEOUT_S", 0.5)
    child = tmp_path / "child"
    user = plugin(tmp_path, f"setsid sh -c 'echo $$ > {child}; exec sleep 600' & wait")
    try:
        async with asyncio.timeout(20):
            assert "did not end within 0.5 s" in await why(tmp_path, user)
    finally:
        os.kill(int(child.read_text()), signal.SIGKILL)


async def test_errors_name_the_plugin_that_returns_the_credentials(tmp_path: Path) -> None:
    made = await access(tmp_path, plugin(tmp_path, answer(token="made")))  # noqa: S106 - not a password
    assert made.credentials == f"exec plugin {tmp_path / 'plugin'}"


def is_running(pid: int) -> bool:
    """Whether the process exists and is not a zombie, which its parent may not have reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except FileNotFoundError:
        return False


class Plugin:
    """A FAKE of a plugin that returns numbered tokens for a minute each, or fails."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.runs = 1
        self.problem = ""
        self.answers = asyncio.Event()
        self.answers.set()
        self.token = RenewedToken(ExecCredentials("1", expires_at=1060), self.obtain, lambda: self.now)

    async def obtain(self) -> ExecCredentials:
        self.runs += 1
        await self.answers.wait()
        if self.problem:
            raise ConfigError(self.problem)
        return ExecCredentials(str(self.runs), expires_at=self.now + 60)


async def test_a_token_is_obtained_again_when_it_expires_or_is_rejected_and_not_before() -> None:
    plugin = Plugin()
    plugin.now += 59
    assert await plugin.token.header() == "Bearer 1"
    plugin.now += 1
    assert [await plugin.token.header() for _ in range(2)] == ["Bearer 2", "Bearer 2"]
    plugin.token.reject()
    assert [await plugin.token.header() for _ in range(2)] == ["Bearer 3", "Bearer 3"]


async def test_the_last_token_stays_in_use_while_the_plugin_fails() -> None:
    plugin = Plugin()
    plugin.now += 60
    plugin.problem = "no network"
    with capture_logs() as logs:
        assert [await plugin.token.header() for _ in range(2)] == ["Bearer 1", "Bearer 1"]
        assert plugin.runs == 2
        plugin.now += 10
        assert await plugin.token.header() == "Bearer 1"
        assert plugin.runs == 3
    assert [(each["event"], each["reason"]) for each in logs] == [("token_not_renewed", "no network")]
    plugin.problem = ""
    plugin.now += 10
    assert await plugin.token.header() == "Bearer 4"


async def test_a_rejection_does_not_shorten_the_pause_after_a_failure() -> None:
    plugin = Plugin()
    plugin.problem = "no network"
    for _ in range(3):
        plugin.token.reject()
        assert await plugin.token.header() == "Bearer 1"
    assert plugin.runs == 2
    plugin.now += 10
    await plugin.token.header()
    assert plugin.runs == 3


async def test_a_request_that_gives_up_does_not_end_the_plugin() -> None:
    plugin = Plugin()
    plugin.token.reject()
    plugin.answers.clear()
    waiting = [asyncio.ensure_future(plugin.token.header()) for _ in range(2)]
    await until(lambda: plugin.runs == 2)
    waiting[0].cancel()
    await asyncio.wait(waiting[:1])
    plugin.answers.set()
    assert (await waiting[1], await plugin.token.header(), plugin.runs) == ("Bearer 2", "Bearer 2", 2)
