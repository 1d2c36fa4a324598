"""Reads and patches of Secrets, as the API server receives them."""

import json

import pytest
from aiohttp import web

from gpushare.adapters.kube.secrets import Secrets, StoredSecret
from gpushare.errors import ApiError, ConfigError
from tests.unit.adapters.fakes import fixed, serving


async def test_the_data_of_a_secret_is_decoded_and_may_be_absent() -> None:
    async with serving() as served:
        secrets = Secrets(served.client, "kube-system")
        full = {"metadata": {"name": "a", "resourceVersion": "7"}, "data": {"k": "dg=="}}
        served.script.append(fixed(200, json.dumps(full).encode()))
        assert await secrets.read("a") == StoredSecret("a", {"k": b"v"}, "7")
        served.script.append(fixed(200, b'{"metadata": {"name": "a", "resourceVersion": "8"}}'))
        assert await secrets.read("a") == StoredSecret("a", {}, "8")


async def test_a_missing_secret_is_an_error_with_the_way_out() -> None:
    async with serving() as served:
        served.script.append(fixed(404, b"{}"))
        with pytest.raises(ConfigError, match=r"Secret kube-system/a does not exist; the stack creates it"):
            await Secrets(served.client, "kube-system").read("a")


@pytest.mark.parametrize("body", [b"", b"<html>", b"null", b'{"metadata": {}, "data": {"k": "dg="}}'])
async def test_a_response_that_is_no_secret_is_an_error(body: bytes) -> None:
    async with serving() as served:
        served.script.append(fixed(200, body))
        with pytest.raises(ApiError, match="Secret kube-system/a cannot be read: "):
            await Secrets(served.client, "kube-system").read("a")


async def test_only_the_version_that_was_read_is_changed() -> None:
    seen: list[tuple[str, str, object]] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        seen.append((request.method, request.path, await request.json()))
        return web.Response(status=409, text="{}")

    async with serving() as served:
        served.script.append(answer)
        with pytest.raises(ApiError) as refused:
            await Secrets(served.client, "kube-system").write(StoredSecret("a", {}, "7"), {"k": b"v"})
    assert refused.value.status == 409
    body = {"metadata": {"resourceVersion": "7"}, "data": {"k": "dg=="}}
    assert seen == [("PATCH", "/api/v1/namespaces/kube-system/secrets/a", body)]
