"""Rounds with failing sources, and the scrapes after them."""

import asyncio
import gc
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text
from structlog.testing import capture_logs

from devkit.waiting import until
from gpushare.adapters.kube.access import ApiAccess
from gpushare.adapters.kube.agent_resources import local_node, local_pods
from gpushare.adapters.kube.client import KubeClient
from gpushare.adapters.kube.informer import Informer
from gpushare.contract import ANN_CARDS
from gpushare.errors import GpuError
from gpushare.exporter.exposition import Exposition
from gpushare.exporter.sampling import Sampler
from gpushare.exporter.settings import ExporterSettings
from gpushare.exporter.snapshot import SOURCES
from gpushare.isolation.layout import REGION, DirectoryOwner
from gpushare.isolation.limits import CardLimit
from gpushare.isolation.region import CardUse
from gpushare.model.cards import Card, format_cards
from gpushare.model.changes import Deleted, Upserted
from gpushare.model.hardware import SHARES_HOST_MEMORY
from gpushare.model.local_node import LocalNode, LocalPod
from gpushare.model.readings import Readings
from tests.support.builders.regions import region_bytes, write_container_directory
from tests.support.fakes.podresources import Lister, container, pod, served
from tests.unit.exporter.builders import T4, gpu_pod, process, reading

MEM = "aliyun.com/gpu-mem"
OPENMETRICS = "application/openmetrics-text; version=1.0.0"


class Cards:
    """A FAKE of the driver: returns or raises the configured answer, or does not return."""

    def __init__(self, answer: Readings | Exception | None) -> None:
        self.answer = answer

    async def readings(self) -> Readings:
        if self.answer is None:
            await asyncio.Event().wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        assert self.answer
        return self.answer


class Setting:
    """A sampler with its sources: the driver is a fake, the API server has answered and is now down."""

    def __init__(self, settings: ExporterSettings, client: KubeClient, cards: Cards) -> None:
        self.cards = cards
        self.pods: Informer[LocalPod] = Informer(client, local_pods("n"))
        self.node: Informer[LocalNode] = Informer(client, local_node("n"))
        self.late_s = 0.0
        self.sampler = Sampler(
            settings,
            cards,
            self.pods,
            self.node,
            clock=lambda: time.monotonic() + self.late_s,
            sysfs=settings.isolation_state.parent / "sys",
        )
        self.exposition = Exposition(
            self.sampler, "n", settings.stale_seconds, each_process=False, dcgm_devices=True
        )

    def sync(self) -> None:
        """The API server returns the pod ``a`` and the node."""
        text = format_cards((Card(0, 14, "GPU-0", "Tesla T4", T4),))
        self.pods.changed([Upserted("a-uid", gpu_pod("a"))])
        self.node.changed([Upserted("n", LocalNode("n", annotations={ANN_CARDS: text}))])
        self.pods.synced("pods")
        self.node.synced("nodes")

    def shown(self, name: str, label: str = "PodName") -> dict[str, float]:
        """Values by a label, as a scrape gets them."""
        page, _ = self.exposition("")
        return {
            sample.labels.get(label, ""): sample.value
            for family in parse_text(page.decode())
            for sample in family.samples
            if sample.name == name
        }

    @property
    def up(self) -> dict[str, float]:
        return self.shown("gpushare_exporter_source_up", "source")


@asynccontextmanager
async def setting(tmp_path: Path, **changes: Any) -> AsyncIterator[Setting]:
    fields: dict[str, Any] = {
        "node_name": "n",
        "interval_seconds": 0.05,
        "deadline_seconds": 0.3,
        "pod_resources_socket": tmp_path / "kubelet.sock",
        "isolation_state": tmp_path / "isolation",
    }
    async with (
        served(tmp_path, Lister(pod("a", container("main", (MEM, ["GPU-0-_-0"]))))),
        KubeClient(ApiAccess(host="http://127.0.0.1:9")) as client,
    ):
        mine = Readings((reading(0, process(os.getpid(), 100, 5)),))
        found = Setting(ExporterSettings(**fields | changes), client, Cards(mine))
        found.sync()
        yield found


async def rounds(found: Setting, seen: Callable[[], bool]) -> None:
    """Let the sampler run until something is seen."""

    async def there() -> bool:
        return seen()

    running = asyncio.create_task(found.sampler.run(found.exposition.prepare))
    await until(there, "the rounds", 10, 0.02)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


FAILURES = "gpushare_exporter_source_failures_total"
ALL_UP = dict.fromkeys(SOURCES, 1.0)


async def test_a_round_joins_all_sources(tmp_path: Path) -> None:
    async with setting(tmp_path) as found:
        await rounds(found, lambda: found.sampler.snapshot is not None)
        assert found.up == ALL_UP
        # The process of this test is in no pod.
        assert found.shown("DCGM_CUSTOM_PROCESS_MEM_USED") == {"": 100, "a": 0}
        assert found.shown("DCGM_CUSTOM_CONTAINER_MEM_ALLOCATED") == {"a": 4308}


async def test_the_cpus_of_processes_and_gpus_are_read(tmp_path: Path) -> None:
    device = tmp_path / "sys" / "bus" / "pci" / "devices" / "0000:3b:00.0"
    device.mkdir(parents=True)
    (device / "numa_node").write_text("1\n")
    node = tmp_path / "sys" / "devices" / "system" / "node" / "node1"
    node.mkdir(parents=True)
    (node / "cpulist").write_text("4-7\n")
    async with setting(tmp_path) as found:
        found.cards.answer = Readings((reading(0, process(os.getpid()), pci="00000000:3B:00.0"),))
        cpus = (await found.sampler.read()).cpus
    assert cpus is not None
    assert cpus.beside == {"GPU-0": {4, 5, 6, 7}}
    assert cpus.by_pid == {os.getpid(): os.sched_getaffinity(0)}


async def test_a_driver_that_does_not_respond_loses_its_series_and_no_scrape(tmp_path: Path) -> None:
    async with setting(tmp_path) as found:
        await rounds(found, lambda: found.sampler.snapshot is not None)
        found.cards.answer = None
        # A scrape is a plain function: it cannot wait for the driver.
        assert found.shown("DCGM_FI_DEV_FB_USED", "gpu") == {"0": 100}
        await rounds(found, lambda: found.up["nvml"] == 0)
        assert found.up == {**ALL_UP, "nvml": 0}
        assert found.shown("DCGM_FI_DEV_FB_USED", "gpu") == {}


async def test_a_failure_of_the_driver_and_its_end_are_logged_once(tmp_path: Path) -> None:
    async with setting(tmp_path) as found:
        good, found.cards.answer = found.cards.answer, GpuError("libnvidia-ml.so.1 was not found")
        with capture_logs() as reported:
            for _ in range(3):
                await found.sampler.read()
            found.cards.answer = good
            await found.sampler.read()
    assert [(each["event"], each.get("reason")) for each in reported] == [
        ("source_down", "libnvidia-ml.so.1 was not found"),
        ("source_up", None),
    ]


async def test_without_the_kubelet_socket_values_of_annotations_remain(tmp_path: Path) -> None:
    async with setting(tmp_path, pod_resources_socket=tmp_path / "none.sock") as found:
        await rounds(found, lambda: found.sampler.snapshot is not None)
        assert found.up == {**ALL_UP, "pod-resources": 0}
        assert found.shown("DCGM_CUSTOM_CONTAINER_MEM_ALLOCATED") == {"a": 4308}


async def test_invisible_processes_have_no_pod_and_the_remedy_is_logged(tmp_path: Path) -> None:
    async with setting(tmp_path, proc_root=tmp_path) as found:
        with capture_logs() as reported:
            await rounds(found, lambda: found.sampler.snapshot is not None)
        assert found.up == {**ALL_UP, "cgroups": 0}
        assert found.shown("DCGM_CUSTOM_PROCESS_MEM_USED") == {}
        assert found.shown("DCGM_CUSTOM_CONTAINER_MEM_ALLOCATED") == {"a": 4308}
    assert any("hostPID: true" in each.get("reason", "") for each in reported)


async def test_a_process_that_ends_meanwhile_leaves_its_container_idle(tmp_path: Path) -> None:
    (tmp_path / "2").mkdir()
    (tmp_path / "2" / "comm").write_text("kthreadd\n")
    async with setting(tmp_path, proc_root=tmp_path) as found:
        await rounds(found, lambda: found.sampler.snapshot is not None)
        assert found.up == ALL_UP
        assert found.shown("DCGM_CUSTOM_PROCESS_MEM_USED") == {"a": 0}


async def test_gpus_are_exported_without_the_api_server(tmp_path: Path) -> None:
    async with setting(tmp_path) as found:
        found.pods.listed.clear()
        found.node.listed.clear()
        await rounds(found, lambda: found.sampler.snapshot is not None)
        assert found.up == {**ALL_UP, "pods": 0, "node": 0}
        assert found.shown("DCGM_FI_DEV_FB_USED", "gpu") == {"0": 100}
        assert found.shown("DCGM_CUSTOM_PROCESS_MEM_USED") == {}


async def test_counts_of_regions_are_exported_and_a_damaged_region_is_logged_once(tmp_path: Path) -> None:
    async with setting(tmp_path) as found:
        state, owner = tmp_path / "isolation", DirectoryOwner("a-uid", "main")
        counted = region_bytes([CardUse("GPU-0", 0, 5, 5, 2)], crowded=3)
        region = write_container_directory(state, owner, [CardLimit("GPU-0", T4, 4, 14)], counted) / REGION
        await rounds(found, lambda: found.sampler.snapshot is not None)
        assert found.up == ALL_UP
        assert found.shown("gpushare_container_memory_counted_bytes", "pod") == {"a": 5}
        assert found.shown("gpushare_container_memory_refusals_total", "pod") == {"a": 2}
        assert found.shown("gpushare_container_processes_refused_total", "pod") == {"a": 3}
        region.write_bytes(b"damaged")
        with capture_logs() as reported:
            for _ in range(3):
                await found.sampler.read()
            await rounds(found, lambda: found.shown("gpushare_exporter_unreadable_regions", "") == {"": 1})
        assert found.up == ALL_UP
    assert [(each["event"], each["region"]) for each in reported] == [("region_unreadable", "a-uid/main")]


async def test_a_gpu_that_shares_the_memory_of_its_host_is_logged_and_has_its_other_series(
    tmp_path: Path,
) -> None:
    async with setting(tmp_path) as found:
        unified = reading(
            model="NVIDIA GB10", total_bytes=None, used_bytes=None, free_bytes=None, gpu_percent=40
        )
        found.cards.answer = Readings((unified,))
        with capture_logs() as reported:
            for _ in range(3):
                await found.sampler.read()
            await rounds(found, lambda: found.shown("gpushare_card_utilization_ratio", "card") == {"0": 0.4})
        assert found.shown("gpushare_card_memory_bytes", "card") == {}
        assert found.up == ALL_UP
    assert [(each["event"], each["reason"]) for each in reported] == [
        ("memory_unreadable", f"GPU 0 (NVIDIA GB10): {SHARES_HOST_MEMORY}")
    ]


async def test_an_unreadable_isolation_directory_loses_its_series(tmp_path: Path) -> None:
    (tmp_path / "isolation").touch()
    async with setting(tmp_path) as found:
        await rounds(found, lambda: found.sampler.snapshot is not None)
        assert found.up == {**ALL_UP, "isolation": 0}
        assert found.shown("DCGM_CUSTOM_CONTAINER_MEM_ALLOCATED") == {"a": 4308}


async def test_a_node_missing_from_the_cluster_is_logged(tmp_path: Path) -> None:
    async with setting(tmp_path) as found:
        found.node.changed([Deleted("n")])
        with capture_logs() as reported:
            await found.sampler.read()
    reasons = [each["reason"] for each in reported if each["event"] == "source_down"]
    assert reasons == ["NODE_NAME='n': no such node in the cluster"]


async def test_a_stale_snapshot_is_not_exported(tmp_path: Path) -> None:
    async with setting(tmp_path) as found:
        await rounds(found, lambda: found.sampler.snapshot is not None)
        found.late_s = 61
        assert found.up == dict.fromkeys(ALL_UP, 0)
        assert found.shown("DCGM_FI_DEV_FB_USED", "gpu") == {}


async def test_a_bug_in_a_source_loses_its_series_only_and_is_logged_once_with_its_traceback(
    tmp_path: Path,
) -> None:
    async with setting(tmp_path) as found:
        good, found.cards.answer = found.cards.answer, ZeroDivisionError()
        with capture_logs() as reported:
            await rounds(found, lambda: found.shown(FAILURES, "source").get("nvml", 0) > 2)
            assert found.up == {**ALL_UP, "nvml": 0}
            found.cards.answer = good
            await rounds(found, lambda: found.up == ALL_UP)
    defect, up = reported
    assert (defect["event"], defect["log_level"], defect["source"]) == ("source_defect", "error", "nvml")
    assert defect["exc_info"] is True
    assert up["event"] == "source_up"


async def test_reads_without_a_result_are_counted_by_source(tmp_path: Path) -> None:
    async with setting(tmp_path, pod_resources_socket=tmp_path / "none.sock") as found:
        for _ in range(2):
            await found.sampler.read()
        snapshot = await found.sampler.read()
    assert snapshot.failures == {**dict.fromkeys(SOURCES, 0), "pod-resources": 3}


async def test_a_bug_after_the_sources_fails_one_round_and_not_the_daemon(tmp_path: Path) -> None:
    async with setting(tmp_path) as found:
        outcomes = iter([ZeroDivisionError()])
        updated = asyncio.Event()

        def update() -> None:
            if error := next(outcomes, None):
                raise error
            updated.set()

        with capture_logs() as reported:
            running = asyncio.create_task(found.sampler.run(update))
            await asyncio.wait_for(updated.wait(), 10)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
    assert [each["event"] for each in reported] == ["round_failed"]


async def test_rounds_that_fail_after_the_sources_make_the_last_snapshot_old(tmp_path: Path) -> None:
    async with setting(tmp_path) as found:
        begun = time.monotonic()
        failed = asyncio.Event()

        def fail() -> None:
            if time.monotonic() > begun + 0.2:
                failed.set()
            raise ZeroDivisionError

        running = asyncio.create_task(found.sampler.run(fail))
        await asyncio.wait_for(failed.wait(), 10)
        age_s, elapsed_s = found.sampler.age_s, time.monotonic() - begun
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    # The liveness probe depends on it.
    assert age_s >= elapsed_s - 0.05


async def test_a_stop_at_any_moment_of_a_round_leaves_no_read_behind(tmp_path: Path) -> None:
    """A warning about a coroutine that was never awaited would be an error here."""
    async with setting(tmp_path) as found:
        for turns in range(40):
            reading = asyncio.ensure_future(found.sampler.read())
            for _ in range(turns):
                await asyncio.sleep(0)
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            gc.collect()


async def test_a_scrape_is_valid_text_and_openmetrics(tmp_path: Path) -> None:
    async with setting(tmp_path) as found:
        rich = reading(0, energy_mj=5, ecc_corrected=1, ecc_corrected_ever=2, xids={31: 1}, last_xid=31)
        found.cards.answer = Readings((rich,))
        await rounds(found, lambda: found.sampler.snapshot is not None)
        plain, plain_type = found.exposition("text/plain")
        page, page_type = found.exposition(OPENMETRICS)
        assert plain_type.startswith("text/plain")
        assert page_type.startswith("application/openmetrics-text")
        text = {each.name for each in parse_text(plain.decode())}
        openmetrics = {each.name for each in parse_openmetrics(page.decode())}  # type: ignore[no-untyped-call]
        assert {"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "gpushare_card_energy_joules"} <= openmetrics
        assert text == openmetrics


async def test_a_snapshot_is_rendered_before_it_is_scraped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with setting(tmp_path) as found:
        await rounds(found, lambda: found.sampler.snapshot is not None)
        for accept in ("", OPENMETRICS):
            found.exposition(accept)
        before = found.sampler.snapshot
        await rounds(found, lambda: found.sampler.snapshot is not before)
        monkeypatch.delattr(Exposition, "collect")
        for accept in ("", OPENMETRICS):
            page, _ = found.exposition(accept)
            assert b"DCGM_FI_DEV_FB_USED" in page


async def test_unused_formats_are_not_kept(tmp_path: Path) -> None:
    async with setting(tmp_path) as found:
        pages = {found.exposition(f"application/openmetrics-text; version=1.0.{i}") for i in range(20)}
        assert len(pages) == 20
        assert len(found.exposition._pages) <= 4
