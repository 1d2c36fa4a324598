"""Kubeconfig files: kubectl merges the same files equally, and a real API server accepts the credentials."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from devkit.process import run_text
from gpushare.adapters.kube.client import KubeClient
from gpushare.adapters.kube.config import load_access
from gpushare.adapters.kube.kubeconfig import selected
from gpushare.errors import ApiError
from testbed import Bed

pytestmark = pytest.mark.asyncio(loop_scope="session")

ACCOUNT = "system:serviceaccount:default:default"
VERSION = "client.authentication.k8s.io/v1"
FIRST = """
apiVersion: v1
kind: Config
current-context: ""
preferences: {}
clusters: null
contexts: [{name: main, context: {cluster: c, user: u}}]
users: [{name: u, user: {tokenFile: secrets/token}}, {name: 2024-01-01, user: {token: first}}]
"""
SECOND = """
apiVersion: v1
kind: Config
current-context: main
clusters: [{name: c, cluster: {server: https://c, certificate-authority: ../ca.crt, proxy-url: null}}]
contexts:
- {name: main, context: {cluster: none, user: none}}
- {name: on c, context: {cluster: c, user: 2024-01-01}}
users: [{name: u, user: {token: second, username: x}}, {name: 2024-01-01, user: {token: second}}]
"""
THIRD = """
apiVersion: v1
kind: Config
current-context: on c
clusters: [{name: c, cluster: {server: https://d, insecure-skip-tls-verify: true}}]
"""


@pytest.fixture
def bed(clean_bed: Bed) -> Bed:
    return clean_bed


async def user_of(kubeconfig: Path) -> str:
    """The user name that the API server sees."""
    async with KubeClient(await load_access(str(kubeconfig))) as client:
        return await user_seen(client)


async def user_seen(client: KubeClient) -> str:
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer = json.loads(await client.request("POST", path, timeout_s=10, body=review))
    return str(answer["status"]["userInfo"]["username"])


def written(path: Path, bed: Bed, user: dict[str, Any], **cluster: Any) -> Path:
    """A kubeconfig for this user of the testbed."""
    known = {"server": bed.api_url, "certificate-authority": str(bed.ca_file)}
    document = {
        "current-context": "main",
        "contexts": [{"name": "main", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": known | cluster}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize("context", [None, "on c"])
async def test_several_files_select_what_kubectl_selects(
    bed: Bed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, context: str | None
) -> None:
    paths = []
    for name, text in (("first", FIRST), ("second", SECOND), ("third", THIRD)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config").write_text(text)
        paths.append(str(tmp_path / name / "config"))
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(["", str(tmp_path / "none"), *paths]))
    kubectl = str(bed.components.tools["kubectl"].path)
    chosen = ["--context", context] if context else []
    seen = json.loads(await run_text([kubectl, "config", "view", "--raw", "--minify", "-ojson", *chosen], 30))
    ours = selected(os.environ["KUBECONFIG"], context)
    (cluster,), (user,) = seen["clusters"], seen["users"]
    assert ours.context == seen["current-context"]
    assert (ours.cluster.name, ours.user.name) == (cluster["name"], user["name"])
    assert ours.cluster.value.server == cluster["cluster"]["server"]
    assert ours.cluster.value.certificate_authority == cluster["cluster"]["certificate-authority"]
    assert ours.user.value.token == user["user"].get("token")
    assert ours.user.value.token_file == user["user"].get("tokenFile")


async def test_client_certificates_as_files_and_as_data(bed: Bed, tmp_path: Path) -> None:
    flat = tmp_path / "flat"
    flat.write_text(await bed.kubectl("config", "view", "--raw", "--flatten"))
    assert "client-key-data" in flat.read_text()
    assert await user_of(flat) == await user_of(bed.kubeconfig)


async def test_tokens_as_value_as_file_and_of_a_plugin(bed: Bed, tmp_path: Path) -> None:
    token = (await bed.kubectl("create", "token", "default")).strip()
    (tmp_path / "token").write_text(token)
    credential = {"apiVersion": VERSION, "kind": "ExecCredential", "status": {"token": token}}
    (tmp_path / "credential").write_text(json.dumps(credential))
    plugin = {
        "apiVersion": VERSION,
        "command": "cat",
        "args": [str(tmp_path / "credential")],
        "interactiveMode": "Never",
    }
    for user in ({"token": token}, {"tokenFile": "token"}, {"exec": plugin}):
        assert await user_of(written(tmp_path / "config", bed, user)) == ACCOUNT


async def test_a_plugin_is_asked_again_when_the_api_server_rejects_its_token(
    bed: Bed, tmp_path: Path
) -> None:
    answer = tmp_path / "credential"
    credential = {"apiVersion": VERSION, "kind": "ExecCredential", "status": {"token": "revoked"}}
    answer.write_text(json.dumps(credential))
    plugin = {"apiVersion": VERSION, "command": "cat", "args": [str(answer)], "interactiveMode": "Never"}
    async with KubeClient(
        await load_access(str(written(tmp_path / "config", bed, {"exec": plugin})))
    ) as client:
        credential["status"] = {"token": (await bed.kubectl("create", "token", "default")).strip()}
        answer.write_text(json.dumps(credential))
        with pytest.raises(ApiError) as caught:
            await user_seen(client)
        assert caught.value.status == 401
        assert await user_seen(client) == ACCOUNT


async def test_the_name_in_the_certificate_of_the_server(bed: Bed, tmp_path: Path) -> None:
    token = {"token": (await bed.kubectl("create", "token", "default")).strip()}
    assert await user_of(written(tmp_path / "a", bed, token, **{"tls-server-name": "localhost"})) == ACCOUNT
    with pytest.raises(ApiError, match=r"other\.test"):
        await user_of(written(tmp_path / "b", bed, token, **{"tls-server-name": "other.test"}))
    anyone = {
        "certificate-authority": None,
        "insecure-skip-tls-verify": True,
        "tls-server-name": "other.test",
    }
    assert await user_of(written(tmp_path / "c", bed, token, **anyone)) == ACCOUNT
