"""Kubeconfigs as kubectl reads them; errors of credentials name file and reason."""

import base64
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from gpushare.adapters.kube.config import load_access, user_kubeconfig
from gpushare.adapters.kube.service_account import HOST_VARIABLE
from gpushare.errors import ConfigError


async def why(kubeconfig: str | None, context: str | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        await load_access(kubeconfig, context)
    return str(caught.value)


GOOD = """
apiVersion: v1
kind: Config
current-context: main
contexts: [{name: main, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1234"}}]
users: [{name: u, user: {token: secret}}]
"""


async def test_a_kubeconfig_that_works(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(GOOD)
    access = await load_access(str(path))
    assert (access.host, await access.authorization()) == ("http://127.0.0.1:1234", "Bearer secret")


def written(path: Path, cluster: dict[str, Any], user: dict[str, Any]) -> str:
    document = {
        "current-context": "main",
        "contexts": [{"name": "main", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://api.test:6443"} | cluster}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(json.dumps(document))
    return str(path)


def read(path: str | None) -> bytes:
    return Path(path or "").read_bytes()


async def test_everything_of_a_kubeconfig_that_concerns_the_connection(tmp_path: Path) -> None:
    for name in ("ca.crt", "me.crt"):
        (tmp_path / name).write_text(name)
    cluster = {
        "certificate-authority": "ca.crt",
        "tls-server-name": "other.test",
        "proxy-url": "http://proxy.test:3128",
        "insecure-skip-tls-verify": True,
    }
    key = base64.b64encode(b"my key").decode()
    access = await load_access(
        written(tmp_path / "config", cluster, {"client-certificate": "me.crt", "client-key-data": key})
    )
    assert (access.host, await access.authorization()) == ("https://api.test:6443", None)
    assert (access.ca_file, access.cert_file) == (str(tmp_path / "ca.crt"), str(tmp_path / "me.crt"))
    assert read(access.key_file) == b"my key"
    assert (access.tls_server_name, access.proxy, access.verify) == (
        "other.test",
        "http://proxy.test:3128",
        False,
    )


@pytest.mark.parametrize(
    ("user", "header"),
    [
        ({}, None),
        ({"token": "secret"}, "Bearer secret"),
        ({"tokenFile": "token"}, "Bearer of a file"),
        ({"username": "me", "password": "pass"}, "Basic bWU6cGFzcw=="),
    ],
)
async def test_a_user_authenticates(tmp_path: Path, user: dict[str, str], header: str | None) -> None:
    (tmp_path / "token").write_text("of a file")
    access = await load_access(written(tmp_path / "config", {}, user))
    assert await access.authorization() == header
    assert access.verify


async def test_an_exec_plugin_returns_the_token(tmp_path: Path) -> None:
    version = "client.authentication.k8s.io/v1"
    answer = {"apiVersion": version, "kind": "ExecCredential", "status": {"token": "made"}}
    plugin = {
        "apiVersion": version,
        "command": sys.executable,
        "args": ["-c", f"print({json.dumps(answer)!r})"],
    }
    access = await load_access(written(tmp_path / "config", {}, {"exec": plugin}))
    assert await access.authorization() == "Bearer made"


async def test_several_files_are_read_as_one(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    written(first, {}, {"token": "secret"})
    document = json.loads(first.read_text())
    second.write_text(json.dumps({"users": document.pop("users")}))
    first.write_text(json.dumps(document))
    access = await load_access(f"{first}:{tmp_path / 'none'}:{second}")
    assert (access.host, await access.authorization()) == ("https://api.test:6443", "Bearer secret")


async def test_the_proxy_of_the_environment_unless_it_is_for_others_or_the_file_names_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = written(tmp_path / "plain", {}, {})
    named = written(tmp_path / "named", {"proxy-url": "http://named.test:1"}, {})
    for name in ("NO_PROXY", "no_proxy", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.test:3128")
    assert (await load_access(plain)).proxy == "http://proxy.test:3128"
    assert (await load_access(named)).proxy == "http://named.test:1"
    monkeypatch.setenv("NO_PROXY", "api.test")
    assert (await load_access(plain)).proxy is None


async def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "config"
    assert await why(str(path)) == f"kubeconfig {path}: no such file (set KUBECONFIG or --kubeconfig)"


async def test_a_directory_is_no_kubeconfig(tmp_path: Path) -> None:
    assert await why(str(tmp_path)) == f"kubeconfig {tmp_path}: Is a directory"


async def test_a_context_that_is_not_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(GOOD)
    text = await why(str(path), "other")
    assert text.startswith(f"kubeconfig {path}: ")
    assert "other" in text


@pytest.mark.parametrize("text", ["", "[]", "{", "\t", "apiVersion: v1"])
async def test_a_file_that_is_no_kubeconfig(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    assert (await why(str(path))).startswith(f"kubeconfig {path}: ")


async def test_an_empty_kubeconfig_and_one_that_is_no_text_are_named(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_bytes(b" \n")
    assert await why(str(path)) == f"kubeconfig {path}: is empty"
    path.write_bytes(b"\xff\xfe")
    assert (await why(str(path))).startswith(f"kubeconfig {path}: is not text: ")
    path.write_text("a token")
    assert (await why(str(path))).startswith(f"kubeconfig {path}: is not a kubeconfig: ")


@pytest.mark.parametrize(
    "server", ["", "host", "ftp://host", "https://host:99999", "https://host:x", "https://[::1"]
)
async def test_a_server_that_is_no_url_is_an_error(tmp_path: Path, server: str) -> None:
    path = written(tmp_path / "config", {"server": server}, {})
    assert await why(path) == f"kubeconfig {path}: server {server!r} is not like https://host:6443"


async def test_neither_file_nor_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    text = await why(None)
    assert text.startswith("no kubeconfig given and not in a cluster (")
    assert text.endswith("set KUBECONFIG or --kubeconfig")


def test_the_flag_beats_the_variable_which_beats_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(HOST_VARIABLE, raising=False)
    monkeypatch.setenv("KUBECONFIG", "/a:/b")
    assert user_kubeconfig("/flag") == "/flag"
    assert user_kubeconfig(None) == "/a:/b"
    monkeypatch.delenv("KUBECONFIG")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert user_kubeconfig(None) is None
    default = tmp_path / ".kube" / "config"
    default.parent.mkdir()
    default.touch()
    assert user_kubeconfig(None) == str(default)


def test_in_a_pod_a_variable_with_a_directory_selects_the_service_account(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(HOST_VARIABLE, "10.0.0.1")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path))
    assert user_kubeconfig(None) is None
    assert user_kubeconfig(str(tmp_path)) == str(tmp_path)
    written(tmp_path / "config", {}, {})
    both = f"{tmp_path}:{tmp_path / 'config'}"
    monkeypatch.setenv("KUBECONFIG", both)
    assert user_kubeconfig(None) == both


def test_outside_of_pods_a_variable_that_names_no_file_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(HOST_VARIABLE, raising=False)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path))
    assert user_kubeconfig(None) == str(tmp_path)
