"""``gpushare board`` as a process, against a FAKE of the API server."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import web
from msgspec import to_builtins

from devkit.ports import free_ports
from gpushare.model.usage_documents import GpuPodList
from gpushare.overview.usage_api import way_to_usage
from testbed import until
from tests.support.builders.boards import GIB, example
from tests.support.builders.usage_documents import a10, fits, gpu_pod, running_pod
from tests.support.fixtures.boards import Running, running_board
from tests.unit.cli.fakes import Api, call, documented, kubeconfig

pytestmark = pytest.mark.asyncio

HINT = "Open this URL in a browser on this machine. Ctrl-C ends the board.\n"
Served = tuple[Api, web.AppRunner]


def running(api: Api, *flags: str) -> AbstractAsyncContextManager[Running]:
    return running_board(sys.executable, "-m", "gpushare", "board", "--kubeconfig", api.kubeconfig, *flags)


@pytest_asyncio.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Served]:
    """The example cluster."""
    served, made = Api(), example()
    served.nodes, served.pods, served.page_size = made.nodes, made.pods, 1000
    served.exporters = made.exporters
    runner = web.AppRunner(served.application(), handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    served.url = f"http://{host}:{port}"
    served.kubeconfig = kubeconfig(tmp_path, served.url)
    yield served, runner
    await runner.cleanup()


async def test_its_figures_are_those_of_inspect_and_top(cluster: Served) -> None:
    api, _ = cluster
    async with running(api) as board:

        async def measured() -> Any:
            found = await board.document()
            return found if found["asked"] else None

        found = await until(measured, "the exporters to be read")
        inspected = await documented(api, "inspect", "-o", "json")
        items = {item["name"]: item for item in inspected["items"]}
        shown = {node["name"]: (node["used"], node["total"]) for node in found["nodes"]}
        assert shown == {name: (item["used"], item["total"]) for name, item in items.items()}
        _, out, _ = await call(api, "top", "pod", "-A", "-o", "json")
        used = {(each["namespace"], each["pod"]): each["usedBytes"] for each in json.loads(out)["items"]}
        silent = {(pod["namespace"], pod["name"]): None for pod in found["pods"] if pod["usedBytes"] is None}
        assert {(p["namespace"], p["name"]): p["usedBytes"] for p in found["pods"]} == used | silent
        assert found["used"]["memoryBytes"] == 988 * GIB
        assert any("e-gpu-t4-3" in text for each in found["health"] for text in each["details"])
        assert found["health"][0]["text"].startswith("No extender runs in kube-system")
        assert await board.end() == (130, f"{HINT}\n")


async def test_changes_of_the_cluster_arrive(cluster: Served) -> None:
    api, _ = cluster
    async with running(api) as board:
        gone = next(pod for pod in api.pods if pod["metadata"]["name"] == "tts")
        await api.news.put({"type": "DELETED", "object": gone})

        async def fewer() -> bool:
            return "tts" not in {pod["name"] for pod in (await board.document())["pods"]}

        await until(fewer, "the deleted pod to disappear")


async def test_nothing_without_the_token_or_for_another_host(cluster: Served) -> None:
    api, _ = cluster
    async with running(api) as board:
        for path in ("", "data", "board.js", "fleet.js"):
            assert (await board.get(path))[0] == 200
            assert (await board.get(path, host="evil.example"))[0] == 403
            assert (await board.get(path, origin="http://evil.example"))[0] == 403
        async with aiohttp.ClientSession() as stranger:
            for url in (board.home, f"{board.home}data", f"{board.home}?token=guessed"):
                async with stranger.get(url) as response:
                    assert response.status == 403
        assert b"token" not in (await board.get("data"))[1]
        assert await status_of(board, b"Cookie: \xff\xfe=\xff") == 403
        assert await status_of(board, b"Host: \xff") in (400, 403)
        assert await board.end() == (130, f"{HINT}\n")


async def status_of(board: Running, header: bytes) -> int:
    """The status of a request with a header of any bytes."""
    host = board.home.removeprefix("http://").rstrip("/")
    reader, writer = await asyncio.open_connection(*host.split(":"))
    writer.write(
        b"GET /data HTTP/1.1\r\nHost: %b\r\n%b\r\nConnection: close\r\n\r\n" % (host.encode(), header)
    )
    answer = await reader.read()
    writer.close()
    return int(answer.split()[1])


async def test_a_lost_api_server_is_stated_without_a_traceback(cluster: Served) -> None:
    api, runner = cluster
    async with running(api) as board:
        before = await board.document()
        assert before["lost"] is None
        await runner.cleanup()

        async def lost() -> Any:
            found = await board.document()
            return found if found["lost"] else None

        found = await until(lost, "the board to notice", 60)
        assert "watch of " in found["lost"]["reason"]
        assert [node["used"] for node in found["nodes"]] == [node["used"] for node in before["nodes"]]
        _, err = await board.end()
        assert "Traceback" not in err


def with_usage(api: Api) -> None:
    """An account with the rights of namespace ``default``, for which the usage API answers."""
    pods = [
        running_pod("web", 14, 12),
        *(gpu_pod(f"train-{each}", 60, ("Job", "train")) for each in range(3)),
    ]
    answer = {"pod": "default/train-0", "state": "waits-for-gpu", "summary": "no node has them"}
    api.allow_only("default")
    api.usage = {
        "default/gpupods": to_builtins(GpuPodList(items=tuple(pods), notes=())),
        "default/gpufits": to_builtins(fits(a10())),
        "default/gpupods/train-0/explanation": answer,
    }


@pytest.mark.parametrize("flags", [(), ("-n", "default")])
async def test_with_the_rights_of_one_namespace_the_board_is_of_that(
    cluster: Served, flags: tuple[str, ...]
) -> None:
    api, _ = cluster
    with_usage(api)
    async with running(api, *flags) as board:
        found = await board.document()
        assert (found["kind"], found["namespace"]) == ("NamespaceBoard", "default")
        assert [pod["name"] for pod in found["pods"]] == ["web"]
        [group] = found["pending"]
        assert (len(group["pods"]), group["reason"]) == (3, "no node has them")
        assert found["fits"]["largestFreeUnits"] == 16
        assert "nodes" not in found
        assert await board.end() == (130, f"{HINT}\n")


PAST = ("ranges", "history?range=7d", "tenants?range=30d")
SILENT = f"http://127.0.0.1:{free_ports(1)[0]}"
"""The URL of a Prometheus that does not run."""


async def test_earlier_days_come_from_the_prometheus_of_the_flag(cluster: Served) -> None:
    api, _ = cluster
    async with running(api, "--prometheus", SILENT, "--cluster", "a") as board:
        assert json.loads((await board.get("ranges"))[1])["items"] == ["6h", "24h", "7d", "30d"]
        for path in PAST[1:]:
            status, body = await board.get(path)
            assert status == 502
            assert SILENT.encode() in body
        for path in PAST:
            assert (await board.get(path, origin="http://evil.example"))[0] == 403
            async with aiohttp.ClientSession() as stranger, stranger.get(board.home + path) as response:
                assert response.status == 403


async def test_without_that_flag_the_answer_names_it(cluster: Served) -> None:
    api, _ = cluster
    async with running(api) as board:
        for path in PAST[1:]:
            status, body = await board.get(path)
            assert status == 404
            assert body.endswith(b"Start kubectl gpushare board with --prometheus URL.\n")


@pytest.mark.parametrize("flags", [("--prometheus", SILENT), ("-n", "default")])
async def test_the_board_of_a_namespace_serves_no_earlier_days_of_the_cluster(
    cluster: Served, flags: tuple[str, ...]
) -> None:
    api, _ = cluster
    with_usage(api)
    async with running(api, *flags) as board:
        for path in PAST:
            assert await board.get(path) == (404, b"Not Found\n")
        _, err = await board.end()
        assert ("the board of one namespace does not show it" in err) == ("--prometheus" in flags)


async def test_a_namespace_and_a_prometheus_exclude_each_other(cluster: Served) -> None:
    api, _ = cluster
    code, _, err = await call(api, "board", "-n", "default", "--prometheus", SILENT)
    assert code == 2
    assert "leave out --namespace" in err


@pytest.mark.parametrize("flags", [(), ("-n", "default")])
async def test_without_rights_a_line_says_who_can_help(cluster: Served, flags: tuple[str, ...]) -> None:
    api, _ = cluster
    api.allow_only("default")
    code, out, err = await call(api, "board", *flags)
    assert (code, out) == (1, "")
    assert err.splitlines()[1:] == [way_to_usage("default")]


async def test_a_port_in_use_is_named(cluster: Served) -> None:
    api, _ = cluster
    port = api.url.rpartition(":")[2]
    assert await call(api, "board", "--port", port) == (
        1,
        "",
        f"Error: cannot listen on 127.0.0.1:{port}: Address already in use\n",
    )
