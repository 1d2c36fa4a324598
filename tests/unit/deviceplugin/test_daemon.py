"""Status of the agent as a whole, without running jobs."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pytest
from structlog.testing import capture_logs

from gpushare.adapters.kube.access import ApiAccess
from gpushare.adapters.kube.client import KubeClient
from gpushare.adapters.kube.service_account import HOST_VARIABLE
from gpushare.contract import KUBELET_CHECKPOINT, RESOURCE_WHOLE_GPU
from gpushare.deviceplugin.core.shared_gpus import SharedGpus
from gpushare.deviceplugin.daemon import Agent
from gpushare.deviceplugin.isolation import service
from gpushare.deviceplugin.main import command
from gpushare.deviceplugin.node import reconciler
from gpushare.deviceplugin.node.reconciler import Reconciler
from gpushare.deviceplugin.node.record import AllocationRecord
from gpushare.deviceplugin.node.release import GpuReleaser
from gpushare.deviceplugin.settings import AgentSettings
from gpushare.errors import ApiError, ConfigError, KubeletError
from gpushare.model.changes import Upserted
from gpushare.model.hardware import Fault, GpuFacts, Inventory
from gpushare.model.local_node import LocalNode, LocalPod
from gpushare.model.options import MemoryUnit
from gpushare.model.readings import ProcessReading
from gpushare.runtime.http import Request, Response
from tests.support.builders.gpu_pods import allocations, cards, gpu_pod, served, with_gpu_pods
from tests.support.builders.settings import parsed
from tests.support.fakes import podresources
from tests.support.waiting import until


class NoGpus:
    """A fake driver without cards."""

    async def inventory(self) -> Inventory:
        return Inventory("", None, ())

    async def facts(self) -> Mapping[str, GpuFacts]:
        return {}

    async def processes(self) -> Mapping[str, tuple[ProcessReading, ...]]:
        return {}

    async def faults(self) -> AsyncIterator[Fault]:
        return
        yield


def settings(folder: Path, *flags: str) -> AgentSettings:
    arguments = ["--node-name=node-a", f"--device-plugin-folder={folder}", *flags]
    return parsed(command, AgentSettings, *arguments)


def agent(folder: Path, *flags: str) -> Agent:
    """An agent that does not wait for the lists of the API server."""
    client = KubeClient(ApiAccess(host="http://localhost"))
    return Agent(settings(folder, *flags), "me", client, NoGpus(), lists_s=0.01)


def reconciler_of(found: Agent, record: AllocationRecord | None = None) -> Reconciler:
    """The periodic work of that agent, which begins with its jobs."""
    return Reconciler(
        found._settings,
        found._observer,
        found._releaser,
        record or found._record,
        found.watchdog,
        found.metrics,
        poll_s=0.001,
    )


@pytest.fixture
def ready(tmp_path: Path) -> Agent:
    found = agent(tmp_path)
    found._watches.pods.synced("pods")
    found._watches.node.synced("nodes")
    found.node_state.apply_node(LocalNode("node-a"), None)
    found._kubelet.mem.registered(up=True)
    assert found.unready() is None
    return found


async def test_measured_contexts_are_known_after_a_restart(tmp_path: Path) -> None:
    before = agent(tmp_path)
    task = asyncio.ensure_future(reconciler_of(before)._write_record())
    await until(lambda: agent(tmp_path)._record.previous_unit is not None)
    before.node_state.apply_contexts({"GPU-0": 518})
    await until(lambda: agent(tmp_path).node_state.allocations.context_mib == {"GPU-0": 518})
    task.cancel()


class Terminating:
    """A releaser with a pod that does not end."""

    async def release(self, _: frozenset[str]) -> frozenset[str]:
        return frozenset({"a"})


@pytest.mark.parametrize("turns", range(4))
async def test_a_stop_during_a_change_ends_the_release_of_pods(tmp_path: Path, turns: int) -> None:
    """``asyncio.wait_for`` would swallow it: the agent would neither end nor serve."""
    found = agent(tmp_path)
    found._reconciler._releaser = cast("GpuReleaser", Terminating())
    task = asyncio.ensure_future(found._reconciler._release_terminated())
    await until(lambda: bool(found.node_state._waiters))
    found.node_state.apply_contexts({"GPU-0": 518})
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task}, timeout=5)
    assert task.cancelled()


class FullDisk(AllocationRecord):
    """Counts the attempts to write, which fail while it is full."""

    attempts = 0
    full = True

    async def write(self, *_: object) -> None:
        self.attempts += 1
        if self.full:
            raise ConfigError("cannot write: No space left on device")


async def test_a_record_that_cannot_be_written_is_logged_once_and_closes_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconciler, "_RETRY_S", 0.001)
    found, record = agent(tmp_path), FullDisk(tmp_path, MemoryUnit.GIB)
    with capture_logs() as logs:
        task = asyncio.ensure_future(reconciler_of(found, record)._write_record())
        await until(lambda: record.attempts > 3)
    assert [each["event"] for each in logs] == ["record_not_written"]
    assert sample(found, "degraded_mode", right="record") == 1
    found.node_state.apply_node(LocalNode(settings(tmp_path).node_name), None)
    assert found.node_state.closed_reason == (
        "its node agent cannot write its record: cannot write: No space left on device"
    )
    record.full = False
    await until(lambda: found.node_state.closed_reason is None)
    task.cancel()


def sample(found: Agent, name: str, **labels: str) -> float | None:
    return found.metrics.registry.get_sample_value(f"gpushare_device_plugin_{name}", labels)


def lose(found: Agent, for_s: float) -> None:
    found._watches.pods.failed("pods", ApiError("cannot connect"), 1)
    found._watches.pod_follower._lost_at = time.monotonic() - for_s


def test_a_short_outage_of_the_api_leaves_the_agent_ready(ready: Agent) -> None:
    lose(ready, 10)
    assert ready.unready() is None
    assert 10 <= (sample(ready, "watch_stale_seconds", resource="pods") or 0) < 60
    assert sample(ready, "watch_stale_seconds", resource="nodes") == 0


def test_a_long_outage_of_the_api_is_reported_with_its_reason(ready: Agent) -> None:
    lose(ready, 100)
    assert ready.unready() == "pods: as of 100 s ago: cannot connect"


def test_an_outage_that_is_over_is_not_reported(ready: Agent) -> None:
    lose(ready, 100)
    ready._watches.pod_follower._lost_at = None
    assert ready.unready() is None
    assert sample(ready, "watch_stale_seconds", resource="pods") == 0


def test_each_missing_mount_is_one_line_and_one_metric(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(HOST_VARIABLE, "10.0.0.1")
    with capture_logs() as logs:
        found = agent(
            tmp_path,
            f"--cgroup-root={tmp_path}/none",
            f"--pod-resources-socket={tmp_path}/none/kubelet.sock",
            f"--mps-state={tmp_path}/none",
            f"--kubeconfig={tmp_path}/none",
        )
    reported = [entry["right"] for entry in logs if entry["event"] == "degraded_mode"]
    assert reported == ["cgroups", "pod-resources", "mps", "kubeconfig"]
    assert [sample(found, "degraded_mode", right=right) for right in reported] == 4 * [1]


async def test_cgroups_that_the_kubelet_creates_later_end_the_degraded_mode(tmp_path: Path) -> None:
    found = agent(tmp_path, f"--cgroup-root={tmp_path}")
    assert sample(found, "degraded_mode", right="cgroups") == 1
    (tmp_path / "kubepods.slice").mkdir()
    with capture_logs() as logs:
        for _ in range(2):
            await found._releaser.release(frozenset())
    assert sample(found, "degraded_mode", right="cgroups") == 0
    assert [(each["event"], each["right"]) for each in logs] == [("degraded_mode_over", "cgroups")]


def test_without_host_processes_compute_shares_are_not_enforced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "hosts_proc", lambda: None)
    flags = [f"--isolation-libraries={tmp_path}", f"--isolation-state={tmp_path}"]
    with capture_logs() as logs:
        found = agent(tmp_path, *flags)
    reported = [each["right"] for each in logs if each["event"] == "degraded_mode"]
    assert ("compute" in reported, sample(found, "degraded_mode", right="compute")) == (True, 1)
    with capture_logs() as logs:
        agent(tmp_path, *flags, "--proc-root=/proc")
    assert "compute" not in [each["right"] for each in logs if each["event"] == "degraded_mode"]


@contextmanager
def serving_unlisted(found: Agent, monkeypatch: pytest.MonkeyPatch) -> Iterator[asyncio.Event]:
    """The agent while its lists are late. The event is set once it serves without them."""
    begun = asyncio.Event()

    def jobs() -> Iterator[object]:
        begun.set()
        return iter(())

    monkeypatch.setattr(found, "_serving_jobs", jobs)
    task = asyncio.ensure_future(found._serve())
    try:
        yield begun
    finally:
        task.cancel()


def offered(found: Agent) -> int:
    return len(list(found._kubelet.mem.devices()))


async def test_a_late_pod_list_does_not_offer_gpus_that_another_plugin_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = agent(tmp_path)
    found.node_state.apply_gpus(SharedGpus(MemoryUnit.GIB, cards(14)))
    found._watches.node.changed([Upserted("a", LocalNode("a", allocatable={RESOURCE_WHOLE_GPU: 4}))])
    with serving_unlisted(found, monkeypatch) as begun:
        await asyncio.wait_for(begun.wait(), 5)
        assert "another device plugin still offers 4" in (found.node_state.not_serving_reason or "")
        assert offered(found) == 0


async def test_a_node_that_the_api_does_not_show_in_time_is_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = agent(tmp_path)
    found.node_state.apply_gpus(SharedGpus(MemoryUnit.GIB, cards(14)))
    assert (found.node_state.not_serving_reason, offered(found)) == ("the node has not been read yet", 0)
    generation = found.node_state.generation
    with serving_unlisted(found, monkeypatch) as begun:
        await asyncio.wait_for(begun.wait(), 5)
        assert (found.node_state.not_serving_reason, offered(found)) == (None, 14)
        assert found.node_state.generation > generation
    found._watches.node.changed([Upserted("a", LocalNode("a", allocatable={RESOURCE_WHOLE_GPU: 4}))])
    assert offered(found) == 0


def app_with_card_0(found: Agent) -> None:
    """A pod that has GPU 0 of two as a whole GPU."""
    found.node_state.apply_gpus(SharedGpus(MemoryUnit.GIB, cards(14, 14)))
    found._watches.pods.changed([Upserted("app", LocalPod("app", "default", "app"))])
    found.node_state.apply_whole_gpus({"app": frozenset({"GPU-0"})})


def readyz(found: Agent) -> tuple[int, str]:
    response = found.admin_routes(Request("GET", "/readyz", {}, b"", keep_alive=True))
    assert isinstance(response, Response)
    return response.status, response.body.decode()


def test_readyz_lists_gpus_in_use_as_whole_gpus(ready: Agent) -> None:
    assert readyz(ready) == (200, "ok")
    app_with_card_0(ready)
    reported = "GPU 0 takes no pods until default/app is gone, which has a whole GPU"
    assert readyz(ready) == (200, f"ok\n{reported}")
    ready.node_state.apply_node(LocalNode("node-a"), "label cgpu=false")
    assert readyz(ready) == (503, "label cgpu=false")


def test_gpus_are_read_again_with_and_without_health_checks(tmp_path: Path) -> None:
    for flag in ("--health-check", "--health-check=false"):
        jobs = dict(agent(tmp_path, flag)._serving_jobs())
        for job in jobs.values():
            job.close()
        assert "gpus" in jobs


def test_readyz_has_a_gpu_that_does_not_fit_into_the_list_of_devices(ready: Agent) -> None:
    ready.gpus.not_offered = "GPU 2 has appeared"
    assert readyz(ready) == (200, "ok\nGPU 2 has appeared")


async def test_an_agent_without_lists_reads_the_checkpoint_before_it_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = agent(tmp_path)
    found.node_state.apply_gpus(SharedGpus(MemoryUnit.GIB, cards(14, 14)))
    entry = {"PodUID": "app", "ContainerName": "main", "ResourceName": RESOURCE_WHOLE_GPU}
    entries = [{**entry, "DeviceIDs": {"-1": ["GPU-0"]}, "AllocResp": None}]
    checkpoint = {"Data": {"PodDeviceEntries": entries, "RegisteredDevices": {}}, "Checksum": 1}
    (tmp_path / KUBELET_CHECKPOINT).write_text(json.dumps(checkpoint))
    with serving_unlisted(found, monkeypatch) as begun:
        await asyncio.wait_for(begun.wait(), 5)
        assert [card.whole_gpu_pods for card in found.node_state.allocations.cards] == [("pod UID app",), ()]


@pytest.mark.parametrize("checkpoint", [None, "{"])
async def test_without_a_checkpoint_whole_gpu_pods_come_from_the_kubelet_api(
    tmp_path: Path, checkpoint: str | None
) -> None:
    if checkpoint is not None:
        (tmp_path / KUBELET_CHECKPOINT).write_text(checkpoint)
    pods = [
        podresources.pod(
            "app", podresources.container("main", (RESOURCE_WHOLE_GPU, ["GPU-0"])), namespace="d"
        )
    ]
    socket = f"--pod-resources-socket={tmp_path}/kubelet.sock"
    async with podresources.served(tmp_path, podresources.Lister(*pods)):
        found = agent(tmp_path, socket)
        found.node_state.apply_gpus(SharedGpus(MemoryUnit.GIB, cards(14, 14)))
        found._watches.pods.changed([Upserted("app", LocalPod("app", "d", "app"))])
        task = asyncio.ensure_future(reconciler_of(found)._poll_whole_gpus())
        await until(lambda: found.node_state.allocations.cards[0].whole_gpu_pods == ("d/app",))
        task.cancel()


async def test_a_node_without_checkpoint_and_kubelet_api_is_logged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = agent(tmp_path)
    attempts: list[None] = []

    async def unavailable() -> None:
        attempts.append(None)
        raise KubeletError("no such socket")

    polling = reconciler_of(found)
    monkeypatch.setattr(polling._pod_resources, "list", unavailable)
    with capture_logs() as logs:
        task = asyncio.ensure_future(polling._poll_whole_gpus())
        await until(lambda: len(attempts) > 3)
        task.cancel()
    assert [each["event"] for each in logs] == ["pod_resources_unreadable"]


async def test_allocations_in_another_unit_wait_for_the_lists(tmp_path: Path) -> None:
    """Recorded as 4 MiB, the next start would allocate the rest of 4 GiB again."""
    node = served(with_gpu_pods(allocations(14), gpu_pod("a", 4, card=0)), "a", 4, "x")
    await AllocationRecord(tmp_path / "gpushare", MemoryUnit.GIB).write(lambda: node)
    found = agent(tmp_path, "--memory-unit=MiB")
    task = asyncio.ensure_future(found._serve())
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(task), 0.2)
    later = AllocationRecord(tmp_path / "gpushare", MemoryUnit.MIB)
    assert (len(later.read()), later.previous_unit) == (1, "GiB")
    found._watches.pods.changed([Upserted("a", LocalPod("a", "default", "a", gpu_pod=gpu_pod("a", 4)))])
    found._watches.pods.synced("pods")
    found._watches.node.changed([Upserted("node-a", LocalNode("node-a"))])
    found._watches.node.synced("nodes")
    with pytest.raises(ExceptionGroup, match="unhandled errors") as raised:
        await task
    assert "pods have allocations in GiB: default/a" in str(raised.value.exceptions[0])
