"""When a replica is ready. The watches stand still: their state is set."""

import asyncio
import json
import time
from asyncio import TaskGroup
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest
import pytest_asyncio

from gpushare.adapters.extender_peers import Peers
from gpushare.adapters.kube.access import ApiAccess
from gpushare.adapters.kube.client import KubeClient
from gpushare.adapters.replay import kernel
from gpushare.adapters.replay.kernel import loaded
from gpushare.contract import EXTENDER_PREFIX
from gpushare.errors import ConfigError, KernelError
from gpushare.extender.daemon import ExtenderDaemon
from gpushare.extender.lease import Replica
from gpushare.extender.settings import ExtenderSettings, check
from gpushare.model.options import ClusterPlacement
from gpushare.runtime.http import Request, Response
from tests.unit.extender.fakes import refused, silence


@pytest_asyncio.fixture
async def daemon() -> AsyncIterator[ExtenderDaemon]:
    client = KubeClient(ApiAccess(host="http://localhost"))
    async with asyncio.TaskGroup() as tasks:
        yield ExtenderDaemon(ExtenderSettings(), Replica("me", "host:1"), client, Peers(), tasks)


def list_all(daemon: ExtenderDaemon) -> None:
    for resource in ("nodes", "pods"):
        daemon._sync_status.synced(resource)


def lose_pods(daemon: ExtenderDaemon, seconds: float) -> None:
    daemon._watches._pods._lost_at = time.monotonic() - seconds


def readyz(daemon: ExtenderDaemon) -> tuple[int, str]:
    return probe(daemon, "/readyz")


def probe(daemon: ExtenderDaemon, path: str) -> tuple[int, str]:
    response = daemon.admin_routes(Request("GET", path, {}, b"", keep_alive=True))
    assert isinstance(response, Response)
    return response.status, response.body.decode().splitlines()[0]


async def filtered(daemon: ExtenderDaemon) -> str:
    """The error of a filter request for a node that is not known."""
    pod = {"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": {"containers": []}}
    body = json.dumps({"Pod": pod, "NodeNames": ["n"]}).encode()
    request = Request("POST", f"{EXTENDER_PREFIX}/filter", {}, body, keep_alive=True)
    response = daemon.scheduler_routes(request)
    answered = response if isinstance(response, Response) else await response
    error: str = json.loads(answered.body)["Error"]
    return error


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


async def test_old_data_answers_no_request(daemon: ExtenderDaemon) -> None:
    list_all(daemon)
    daemon._sync_status.failed("pods", silence(), 1)
    lose_pods(daemon, 290)
    assert await filtered(daemon) == ""
    lose_pods(daemon, 310)
    text = "the API server has not delivered changes for 310 s: pods: no answer in time"
    assert await filtered(daemon) == text


async def test_a_process_that_reaches_no_api_server_for_long_is_started_again(daemon: ExtenderDaemon) -> None:
    list_all(daemon)
    daemon._sync_status.failed("pods", silence(), 1)
    lose_pods(daemon, 590)
    assert probe(daemon, "/healthz") == (200, "ok")
    lose_pods(daemon, 610)
    text = "the API server has not delivered changes for 610 s: pods: no answer in time"
    assert probe(daemon, "/healthz") == (503, text)


async def test_a_process_is_not_started_again_because_the_api_server_refuses(daemon: ExtenderDaemon) -> None:
    list_all(daemon)
    daemon._sync_status.failed("pods", silence(), 1)
    daemon._sync_status.failed("pods", refused(403, "cannot list pods"), 1)
    lose_pods(daemon, 610)
    assert probe(daemon, "/healthz") == (200, "ok")


async def test_without_the_kernel_of_its_policy_it_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded.cache_clear()
    monkeypatch.setattr(kernel, "_FOLDER", tmp_path)
    settings = ExtenderSettings(placement=ClusterPlacement.REPLAY)
    client = KubeClient(ApiAccess(host="http://localhost"))
    with pytest.raises(KernelError, match="the policy replay needs"):
        ExtenderDaemon(settings, Replica("me", "host:1"), client, Peers(), cast("TaskGroup", None))


def test_replay_and_a_shortlist_exclude_each_other() -> None:
    settings = ExtenderSettings(placement=ClusterPlacement.REPLAY, shortlist=100)
    with pytest.raises(ConfigError, match="--shortlist 100 excludes --placement replay"):
        check(settings)
