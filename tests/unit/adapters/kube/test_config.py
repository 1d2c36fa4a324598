"""Credentials that cannot work are named with their file and the reason."""

from datetime import timedelta
from pathlib import Path

import pytest
from structlog.testing import capture_logs

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


async def test_an_empty_kubeconfig_and_one_that_is_no_text_are_named(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_bytes(b" \n")
    assert await why(str(path)) == f"kubeconfig {path}: is empty"
    path.write_bytes(b"\xff\xfe")
    assert (await why(str(path))).startswith(f"kubeconfig {path}: is no text: ")


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a service account that works."""
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    loader = "kubernetes.aio.config.incluster_config"
    monkeypatch.setattr(f"{loader}.SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(f"{loader}.SERVICE_CERT_FILENAME", str(tmp_path / "ca.crt"))
    (tmp_path / "token").write_text("first")
    (tmp_path / "ca.crt").write_text("some certificate")
    return tmp_path


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", None])
@pytest.mark.parametrize("name", ["token", "ca.crt"])
async def test_a_file_of_the_service_account_that_cannot_be_read_is_an_error(
    account: Path, name: str, content: bytes | None
) -> None:
    (account / name).unlink()
    if content is not None:
        (account / name).write_bytes(content)
    assert (await why(None)).startswith("service account of this pod: ")


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", None])
async def test_the_last_good_token_stays_in_use_while_its_file_cannot_be_read(
    account: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None
) -> None:
    period = "kubernetes.aio.config.incluster_config.datetime.timedelta"
    monkeypatch.setattr(period, lambda **_: timedelta(0))
    configuration = await load_configuration()

    async def token() -> str:
        return str((await configuration.auth_settings())["BearerToken"]["value"]).split()[-1]

    (account / "token").unlink()
    if content is not None:
        (account / "token").write_bytes(content)
    with capture_logs() as logs:
        assert [await token(), await token()] == ["first", "first"]
    assert [entry["event"] for entry in logs] == ["token_not_renewed"]
    (account / "token").write_text("second")
    assert await token() == "second"


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
