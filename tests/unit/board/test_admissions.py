"""What the API server says of a token, against a FAKE of its reviews."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from gpushare.adapters.kube.access import ApiAccess
from gpushare.adapters.kube.client import KubeClient
from gpushare.board.admissions import Admissions
from tests.unit.cli.fakes import served

pytestmark = pytest.mark.asyncio

USER = {"username": "ann", "uid": "7", "groups": ["ml"], "extra": {"scopes": ["read"]}}


@dataclass
class Reviews:
    """The reviews; ``denied`` are resources that no one may list."""

    admissions: Admissions = field(init=False)
    denied: set[str] = field(default_factory=set)
    asked: list[dict[str, Any]] = field(default_factory=list)
    fails: bool = False

    async def token(self, request: web.Request) -> web.Response:
        spec = (await request.json())["spec"]
        self.asked.append(spec)
        if self.fails:
            return web.json_response({"message": "etcd is down", "code": 500}, status=500)
        known = spec["token"] == "good"  # noqa: S105 - that of the test
        return web.json_response({"status": {"authenticated": known, "user": USER if known else {}}})

    async def access(self, request: web.Request) -> web.Response:
        spec = (await request.json())["spec"]
        self.asked.append(spec)
        return web.json_response(
            {"status": {"allowed": spec["resourceAttributes"]["resource"] not in self.denied}}
        )


@pytest_asyncio.fixture
async def reviews() -> AsyncIterator[Reviews]:
    found = Reviews()
    application = web.Application()
    application.router.add_post("/apis/authentication.k8s.io/v1/tokenreviews", found.token)
    application.router.add_post("/apis/authorization.k8s.io/v1/subjectaccessreviews", found.access)
    async with served(application) as url, KubeClient(ApiAccess(host=url)) as client:
        found.admissions = Admissions(client)
        yield found


async def test_a_user_who_may_list_nodes_and_all_pods_is_admitted(reviews: Reviews) -> None:
    assert (await reviews.admissions.of("good")).status == 200
    identity = {"user": "ann", "uid": "7", "groups": ["ml"], "extra": {"scopes": ["read"]}}
    assert reviews.asked == [
        {"token": "good"},
        {**identity, "resourceAttributes": {"verb": "list", "resource": "nodes"}},
        {**identity, "resourceAttributes": {"verb": "list", "resource": "pods"}},
    ]


async def test_the_api_server_is_asked_once_for_many_requests(reviews: Reviews) -> None:
    for _ in range(5):
        assert (await reviews.admissions.of("good")).status == 200
    assert len(reviews.asked) == 3


async def test_an_unknown_token_is_refused(reviews: Reviews) -> None:
    found = await reviews.admissions.of("other")
    assert (found.status, "expired" in found.reason) == (401, True)


@pytest.mark.parametrize(
    ("resource", "text"),
    [("nodes", "ann may not list nodes"), ("pods", "ann may not list the pods of all namespaces")],
)
async def test_a_user_without_a_right_is_refused_by_name(reviews: Reviews, resource: str, text: str) -> None:
    reviews.denied = {resource}
    found = await reviews.admissions.of("good")
    assert (found.status, found.reason.startswith(text)) == (403, True)


async def test_a_failed_review_admits_nobody(reviews: Reviews) -> None:
    reviews.fails = True
    found = await reviews.admissions.of("good")
    assert (found.status, "etcd is down" in found.reason) == (503, True)


async def test_without_a_token_the_api_server_is_not_asked(reviews: Reviews) -> None:
    assert (await reviews.admissions.of("")).status == 401
    assert reviews.asked == []
