"""Reads, creations and patches of Secrets, as the API server receives them."""

import json
from typing import Any, NamedTuple

import pytest
from aiohttp import web

from gpushare.adapters.kube.secrets import Secrets, StoredSecret
from gpushare.errors import ApiError
from tests.unit.adapters.fakes import Answer, Served, fixed, serving

PATH = "/api/v1/namespaces/kube-system/secrets/a"
EMPTY = b'{"metadata": {"name": "a", "resourceVersion": "8"}}'


class Sent(NamedTuple):
    """One request."""

    method: str
    path: str
    content_type: str
    query: dict[str, str]
    body: Any


def script(served: Served, *answers: Answer) -> list[Sent]:
    """Let the server answer in this order; return the requests that it gets."""
    sent: list[Sent] = []

    def noting(answer: Answer) -> Answer:
        async def noted(request: web.Request) -> web.StreamResponse:
            body = await request.json() if request.can_read_body else None
            sent.append(Sent(request.method, request.path, request.content_type, dict(request.query), body))
            return await answer(request)

        return noted

    served.script.extend(map(noting, answers))
    return sent


async def test_the_data_of_a_secret_is_decoded_and_may_be_absent() -> None:
    async with serving() as served:
        secrets = Secrets(served.client, "kube-system")
        full = {"metadata": {"name": "a", "resourceVersion": "7"}, "data": {"k": "dg=="}}
        script(served, fixed(200, json.dumps(full).encode()), fixed(200, EMPTY))
        assert await secrets.read("a") == StoredSecret("a", {"k": b"v"}, "7")
        assert await secrets.read("a") == StoredSecret("a", {}, "8")


async def test_a_missing_secret_is_created_without_data_as_a_role_can_allow_by_its_name() -> None:
    async with serving() as served:
        sent = script(served, fixed(404, b"{}"), fixed(201, EMPTY))
        assert await Secrets(served.client, "kube-system").read("a") == StoredSecret("a", {}, "8")
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a", "namespace": "kube-system"}}
    assert sent[1] == Sent(
        "PATCH", PATH, "application/apply-patch+yaml", {"fieldManager": "gpushare-secrets"}, body
    )


async def test_what_another_program_has_created_and_filled_meanwhile_is_read() -> None:
    async with serving() as served:
        filled = b'{"metadata": {"name": "a", "resourceVersion": "9"}, "data": {"k": "dg=="}}'
        script(served, fixed(404, b"{}"), fixed(200, filled))
        assert await Secrets(served.client, "kube-system").read("a") == StoredSecret("a", {"k": b"v"}, "9")


@pytest.mark.parametrize("answers", [[fixed(403, b"{}")], [fixed(404, b"{}"), fixed(403, b"{}")]])
async def test_a_missing_right_is_an_error(answers: list[Answer]) -> None:
    async with serving() as served:
        script(served, *answers)
        with pytest.raises(ApiError) as refused:
            await Secrets(served.client, "kube-system").read("a")
    assert refused.value.status == 403


@pytest.mark.parametrize("body", [b"", b"<html>", b"null", b'{"metadata": {}, "data": {"k": "dg="}}'])
async def test_a_response_that_is_no_secret_is_an_error(body: bytes) -> None:
    async with serving() as served:
        script(served, fixed(200, body))
        with pytest.raises(ApiError, match="Secret kube-system/a cannot be read: "):
            await Secrets(served.client, "kube-system").read("a")


async def test_only_the_version_that_was_read_is_changed() -> None:
    async with serving() as served:
        sent = script(served, fixed(409, b"{}"))
        with pytest.raises(ApiError) as refused:
            await Secrets(served.client, "kube-system").write(StoredSecret("a", {}, "7"), {"k": b"v"})
    assert refused.value.status == 409
    body = {"metadata": {"resourceVersion": "7"}, "data": {"k": "dg=="}}
    assert sent == [Sent("PATCH", PATH, "application/merge-patch+json", {}, body)]
