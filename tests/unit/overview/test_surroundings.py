"""What is read of the API server about a pending pod: storage and PodGroup, and what may not be read."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from aiohttp import web

from gpushare.adapters.kube.client import KubeClient
from gpushare.adapters.kube.config import load_access
from gpushare.overview.objects import ClusterPod
from gpushare.overview.surroundings import Gang, Surroundings, collect_surroundings
from tests.unit.cli.fakes import kubeconfig, served

Json = dict[str, Any]
GROUPS = "/apis/scheduling.k8s.io/{}/namespaces/ml/podgroups/g"
CLAIMS = "/api/v1/namespaces/ml/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"


class Server:
    """A FAKE of the API server: answers by path; a number is the code of an error."""

    def __init__(self) -> None:
        self.answers: dict[str, Json | int] = {}
        self.access = ""

    async def answer(self, request: web.Request) -> web.Response:
        found = self.answers.get(request.path)
        if found is None:
            return web.Response(status=404, text="404 page not found\n")
        if isinstance(found, int):
            message = 'podgroups.scheduling.k8s.io "g" not found' if found == 404 else "forbidden"
            return web.json_response({"message": message, "code": found}, status=found)
        return web.json_response(found)


@pytest_asyncio.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    made = Server()
    application = web.Application()
    application.router.add_get("/{path:.*}", made.answer)
    async with served(application) as url:
        made.access = kubeconfig(tmp_path, url)
        yield made


def pod(name: str = "p", **spec: Any) -> ClusterPod:
    return msgspec.convert({"metadata": {"name": name, "namespace": "ml"}, "spec": spec}, ClusterPod)


def mounting(claim: str) -> ClusterPod:
    return pod(volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": claim}}])


async def read(server: Server, who: ClusterPod, *others: ClusterPod) -> tuple[Surroundings, list[str]]:
    notes: list[str] = []
    async with KubeClient(await load_access(server.access)) as client:
        return await collect_surroundings(client, who, [who, *others], notes), notes


@pytest.mark.parametrize("version", ["v1beta1", "v1alpha2"])
async def test_a_gang_counts_the_pods_of_its_group(server: Server, version: str) -> None:
    server.answers[GROUPS.format(version)] = {"spec": {"schedulingPolicy": {"gang": {"minCount": 4}}}}
    member = pod("q", schedulingGroup={"podGroupName": "g"})
    found, _ = await read(server, pod(schedulingGroup={"podGroupName": "g"}), member, pod("r"))
    assert found.gang == Gang("g", 4, 2)


@pytest.mark.parametrize(("code", "gang"), [(404, Gang("g", None, 1)), (403, None), (None, None)])
async def test_a_group_that_is_missing_or_cannot_be_read(
    server: Server, code: int | None, gang: Gang | None
) -> None:
    if code:
        server.answers[GROUPS.format("v1beta1")] = code
    found, _ = await read(server, pod(schedulingGroup={"podGroupName": "g"}))
    assert found.gang == gang


async def test_volumes_and_classes_are_read_only_for_claims_that_need_them(server: Server) -> None:
    claim = {"metadata": {"name": "data"}, "spec": {"volumeName": "v"}, "status": {"phase": "Bound"}}
    server.answers = {CLAIMS: {"items": [claim]}, VOLUMES: {"items": [{"metadata": {"name": "v"}}]}}
    found, notes = await read(server, mounting("data"))
    assert found.storage
    assert found.storage.volumes
    assert list(found.storage.volumes) == ["v"]
    assert (found.storage.classes, notes) == ({}, [])


async def test_what_may_not_be_read_is_a_note(server: Server) -> None:
    server.answers = {CLAIMS: 403}
    found, notes = await read(server, mounting("data"))
    assert found.storage is None
    assert notes == ["its volumes are not checked: forbidden"]
    server.answers = {CLAIMS: {"items": [{"metadata": {"name": "data"}}]}, CLASSES: 403}
    found, notes = await read(server, mounting("data"))
    assert found.storage
    assert found.storage.classes is None
    assert notes == ["this account may not list StorageClasses: its claims without a volume are not checked"]
