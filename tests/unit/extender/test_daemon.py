"""When a replica is ready. The watches stand still: their state is set."""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest_asyncio

from gpushare.adapters.kube.access import ApiAccess
from gpushare.adapters.kube.client import KubeClient
from gpushare.adapters.peer import Peers
from gpushare.extender.daemon import ExtenderDaemon
from gpushare.extender.main import command, settings_of
from gpushare.runtime.http import Request, Response
from tests.unit.extender.fakes import refused, silence


@pytest_asyncio.fixture
async def daemon() -> AsyncIterator[ExtenderDaemon]:
    settings = settings_of(command.make_context("extender", []).params, {})
    async with asyncio.TaskGroup() as tasks:
        yield ExtenderDaemon(settings, KubeClient(ApiAccess(host="http://localhost")), Peers(), tasks)


def list_all(daemon: ExtenderDaemon) -> None:
    for resource in ("nodes", "pods"):
        daemon._sync_status.synced(resource)


def lose_pods(daemon: ExtenderDaemon, seconds: float) -> None:
    daemon._watches._pods._lost_at = time.monotonic() - seconds


def readyz(daemon: ExtenderDaemon) -> tuple[int, str]:
    response = daemon.admin_routes(Request("GET", "/readyz", {}, b"", keep_alive=True))
    assert isinstance(response, Response)
    return response.status, response.body.decode().splitlines()[0]


async def test_it_is_ready_once_nodes_and_pods_are_listed(daemon: ExtenderDaemon) -> None:
    assert readyz(daemon) == (503, "the extender has not listed nodes and pods yet")
    list_all(daemon)
    assert readyz(daemon) == (200, "ok")


async def test_it_stays_ready_while_a_watch_is_lost_for_a_moment(daemon: ExtenderDaemon) -> None:
    list_all(daemon)
    lose_pods(daemon, 20)
    assert readyz(daemon) == (200, "ok")


async def test_it_is_not_ready_while_a_watch_is_lost_for_long_and_names_the_reason(
    daemon: ExtenderDaemon,
) -> None:
    list_all(daemon)
    daemon._sync_status.failed("pods", silence(), 1)
    lose_pods(daemon, 40)
    text = "the API server has not delivered changes for 40 s: pods: no answer in time"
    assert readyz(daemon) == (503, text)
    daemon._watches._pods._lost_at = None
    assert readyz(daemon) == (200, "ok")


async def test_a_missing_permission_to_list_stays_the_reason(daemon: ExtenderDaemon) -> None:
    daemon._sync_status.failed("pods", refused(403, "cannot list pods"), 1)
    lose_pods(daemon, 40)
    assert readyz(daemon) == (503, "the extender has not listed nodes and pods yet: cannot list pods")
