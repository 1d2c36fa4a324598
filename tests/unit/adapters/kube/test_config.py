"""Where access comes from: kubeconfig, service account, proxies of the environment."""

from pathlib import Path

import pytest

from gpushare.adapters.kube.config import load_access, user_kubeconfig, user_namespace
from gpushare.adapters.kube.service_account import HOST_VARIABLE
from gpushare.errors import ConfigError
from tests.unit.adapters.kube.kubeconfigs import written


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


async def test_a_context_needs_a_kubeconfig() -> None:
    assert (
        await why(None, "prod") == "context 'prod': there is no kubeconfig (set KUBECONFIG or --kubeconfig)"
    )
    with pytest.raises(ConfigError, match="context 'prod': there is no kubeconfig"):
        user_namespace(None, "prod")


async def test_a_directory_is_no_kubeconfig(tmp_path: Path) -> None:
    assert await why(str(tmp_path)) == f"kubeconfig {tmp_path}: Is a directory"


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
