"""Credentials that cannot work are named with their file and the reason."""

from pathlib import Path

import pytest

from gpushare.adapters.kube.config import load_configuration, user_kubeconfig
from gpushare.errors import ConfigError


async def why(kubeconfig: str | None, context: str | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        await load_configuration(kubeconfig, context)
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
    assert (await load_configuration(str(path))).host == "http://127.0.0.1:1234"


async def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "config"
    assert await why(str(path)) == f"kubeconfig {path}: no such file (set KUBECONFIG or --kubeconfig)"


async def test_a_folder_is_no_kubeconfig(tmp_path: Path) -> None:
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


async def test_neither_file_nor_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    text = await why(None)
    assert text.startswith("no kubeconfig given and not in a cluster (")
    assert text.endswith("set KUBECONFIG or --kubeconfig")


def test_the_flag_beats_the_variable_which_beats_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/a:/b")
    assert user_kubeconfig("/flag") == "/flag"
    assert user_kubeconfig(None) == "/a:/b"
    monkeypatch.delenv("KUBECONFIG")
    assert user_kubeconfig(None).endswith("/.kube/config")
