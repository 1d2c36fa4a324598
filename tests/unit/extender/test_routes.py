"""Paths and methods of the scheduler's port, as in the router of the Aliyun extender."""

from typing import cast

import pytest

from gpushare.contract import EXTENDER_PREFIX, EXTENDER_VERSION
from gpushare.extender.clients import Clients
from gpushare.extender.metrics import ExtenderMetrics
from gpushare.extender.routes import peer_routes, scheduler_routes
from gpushare.extender.service import SchedulerService
from gpushare.runtime.certificates import PeerCertificate
from gpushare.runtime.http import PendingResponse, Request, Response


class ServiceFake:
    """A fake service that returns its arguments."""

    def answer(self, verb: str, body: bytes, source: str, *, forwarded: bool) -> bytes:
        assert source == "10.0.0.1" or forwarded
        return f"{verb} {body.decode()}{' forwarded' * forwarded}".encode()

    async def bind(self, body: bytes, *, forwarded: bool) -> bytes:
        return f"bind {body.decode()} {forwarded}".encode()

    def inspect(self, node: str) -> bytes:
        return f"inspect {node}".encode()

    async def inspect_all(self) -> bytes:
        return b"inspect all"

    def refuse(self, verb: str, reason: str) -> bytes:
        return f"refused {verb}: {reason}".encode()


SCHEDULER = PeerCertificate("system:kube-scheduler", (), 1e9)
handle = scheduler_routes(cast("SchedulerService", ServiceFake()), Clients([], ExtenderMetrics()))


async def ask(method: str, path: str, body: bytes | None = b"", **headers: str) -> Response:
    given = {name.replace("_", "-").lower().encode(): value.encode() for name, value in headers.items()}
    answer = handle(Request(method, path, given, body, keep_alive=True, source="10.0.0.1"))
    return answer if isinstance(answer, Response) else await answer


async def test_the_port_of_other_replicas_serves_what_they_forward() -> None:
    def peer(method: str, path: str) -> Response | PendingResponse:
        forwarded = {b"x-gpushare-forwarded": b"1"}
        return peer_routes(handle)(Request(method, path, forwarded, b"x", keep_alive=True))

    answer = peer("POST", f"{EXTENDER_PREFIX}/bind")
    assert not isinstance(answer, Response)
    assert (await answer).body == b"bind x True"
    assert peer("POST", f"{EXTENDER_PREFIX}/filter") == Response(b"filter x forwarded")
    for method, path in (("POST", f"{EXTENDER_PREFIX}/preempt"), ("GET", f"{EXTENDER_PREFIX}/inspect")):
        refused = peer(method, path)
        assert isinstance(refused, Response)
        assert refused.status == 404


@pytest.mark.parametrize("verb", ["filter", "prioritize", "preempt"])
async def test_a_verb_gets_the_body(verb: str) -> None:
    assert await ask("POST", f"{EXTENDER_PREFIX}/{verb}", b"x") == Response(f"{verb} x".encode())


async def test_a_forwarded_bind_is_recognized_by_its_header() -> None:
    path = f"{EXTENDER_PREFIX}/bind"
    assert (await ask("POST", path, b"x")).body == b"bind x False"
    assert (await ask("POST", path, b"x", X_Gpushare_Forwarded="1")).body == b"bind x True"


@pytest.mark.parametrize(
    ("path", "node"), [("", "all"), ("/node-1", "node-1"), ("/a b", "a b"), ("/{node}", "{node}")]
)
async def test_inspect_of_all_nodes_or_one(path: str, node: str) -> None:
    assert (await ask("GET", f"{EXTENDER_PREFIX}/inspect{path}")).body == f"inspect {node}".encode()


async def test_version_is_plain_text() -> None:
    answer = await ask("GET", "/version")
    assert (answer.body.decode(), answer.content_type) == (EXTENDER_VERSION, "text/plain; charset=utf-8")


@pytest.mark.parametrize(
    ("method", "path", "status", "header"),
    [
        ("GET", f"{EXTENDER_PREFIX}/filter", 405, ("allow", "POST")),
        ("POST", f"{EXTENDER_PREFIX}/inspect", 405, ("allow", "GET, HEAD")),
        ("DELETE", f"{EXTENDER_PREFIX}/inspect/n", 405, ("allow", "GET, HEAD")),
        ("GET", f"{EXTENDER_PREFIX}/inspect/", 301, ("location", f"{EXTENDER_PREFIX}/inspect")),
        ("POST", f"{EXTENDER_PREFIX}/bind/", 307, ("location", f"{EXTENDER_PREFIX}/bind")),
    ],
)
async def test_wrong_methods_and_slashes(
    method: str, path: str, status: int, header: tuple[str, str]
) -> None:
    answer = await ask(method, path)
    assert (answer.status, answer.headers) == (status, (header,))


@pytest.mark.parametrize(
    "path",
    ["/", "", "//", "/metrics", "/filter", f"{EXTENDER_PREFIX}/inspect/a/b", f"{EXTENDER_PREFIX}/inspect/a/"],
)
async def test_other_paths_are_not_found(path: str) -> None:
    assert (await ask("GET", path)).status == 404


@pytest.mark.parametrize("verb", ["filter", "bind"])
async def test_a_body_that_is_too_large_is_an_error_of_the_verb(verb: str) -> None:
    assert b"larger than 32 MiB" in (await ask("POST", f"{EXTENDER_PREFIX}/{verb}", None)).body


@pytest.mark.parametrize("verb", ["filter", "prioritize", "preempt", "bind"])
async def test_with_tls_a_verb_is_for_clients_with_an_allowed_name(verb: str) -> None:
    service = cast("SchedulerService", ServiceFake())
    guarded = scheduler_routes(service, Clients([SCHEDULER.common_name], ExtenderMetrics()))

    async def body(certificate: PeerCertificate | None) -> bytes:
        request = Request(
            "POST",
            f"{EXTENDER_PREFIX}/{verb}",
            {},
            b"x",
            keep_alive=True,
            certificate=certificate,
            source="10.0.0.1",
        )
        answer = guarded(request)
        return (answer if isinstance(answer, Response) else await answer).body

    for caller in (SCHEDULER, None):
        assert (await body(caller)).startswith(f"{verb} x".encode())
    refused = await body(PeerCertificate("kubelet", (), 1e9))
    assert refused.startswith(f"refused {verb}: the client certificate".encode())
