"""``report`` and ``recommend`` with a real Prometheus, which has read exposition text."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from itertools import chain

import pytest
import pytest_asyncio

from devkit.ports import LOOPBACK, free_ports
from devkit.process import Command, Process
from gpushare.cli.report.accounting import Account, UsageFacts, account
from gpushare.cli.report.collect import collect
from gpushare.cli.report.render import account_document, comma_separated, gap_lines
from gpushare.monitoring import catalogue
from gpushare.monitoring.catalogue import Metric
from gpushare.overview.connection import ApiSource
from gpushare.overview.hours import Span
from testbed.control_plane.components import url_ready
from testbed.programs.debian import program
from tests.support.builders.api_objects import pod
from tests.support.promtool import promtool
from tests.unit.cli.fakes import Api, call, documented

pytestmark = pytest.mark.needs("prometheus", "promtool")

GIB = 2**30
END = 1_700_000_040
"""A multiple of 60."""
MINUTES = 120
SPAN = Span(END - 30, 60, MINUTES)


def lines(metric: Metric, labels: str, value: float, minutes: range) -> Iterator[tuple[str, str]]:
    """One sample for each step, half a minute before it; step 0 is the first of the time."""
    for minute in minutes:
        at = END + 60 * (minute - MINUTES) - 30
        yield str(metric), f"{metric}{{{labels}}} {value} {at}"


def gpu(index: int, *, used: int, minutes: range = range(MINUTES)) -> Iterator[tuple[str, str]]:
    labels = f'node="n1",card="{index}",uuid="GPU-{index}"'
    yield from lines(catalogue.CARD_MEMORY, labels, 16 * GIB, minutes)
    yield from lines(catalogue.CARD_USED, labels, used * GIB, minutes)


def container(
    name: str, *, gib: int, used: int, sm: float, minutes: range = range(MINUTES), instance: str = "a"
) -> Iterator[tuple[str, str]]:
    where = (
        f'node="n1",namespace="ml",pod="{name}",container="main",card="0",uuid="GPU-0",instance="{instance}"'
    )
    yield from lines(catalogue.CONTAINER_ALLOCATED, where, gib * GIB, minutes)
    yield from lines(catalogue.CONTAINER_USED, where, used * GIB, minutes)
    yield from lines(catalogue.CONTAINER_UTILIZATION, where, sm, minutes)


def resized(name: str) -> Iterator[tuple[str, str]]:
    """A container with a peak of 3 GiB whose pod has 4 GiB, and had 8 on another GPU half an hour ago."""
    before = f'node="n1",namespace="default",pod="{name}",container="main",card="1",uuid="GPU-1"'
    metric = str(catalogue.CONTAINER_ALLOCATED)
    yield metric, f"{metric}{{{before}}} {8 * GIB} {int(time.time()) - 1800}"
    yield from recent(name, peak=3)


def recent(name: str, *, peak: int, refusals: int = 0, job: str = "") -> Iterator[tuple[str, str]]:
    """A container and its peak in GiB until a minute ago."""
    where = f'node="n1",namespace="default",pod="{name}",container="main",card="0",uuid="GPU-0"{job}'
    for metric, value in (
        (catalogue.CONTAINER_ALLOCATED, 4 * GIB),
        (catalogue.CONTAINER_LIMIT, 4 * GIB),
        (catalogue.CONTAINER_PEAK, peak * GIB),
        (catalogue.CONTAINER_USED, GIB),
        (catalogue.CONTAINER_REFUSALS, refusals),
    ):
        yield str(metric), f"{metric}{{{where}}} {value} {int(time.time()) - 60}"


def exposition() -> str:
    """Two GPUs, one of which has no data for half an hour, and two pods of which one is gone.

    Two jobs scrape the container ``a``.
    """
    samples = chain(
        gpu(0, used=5),
        gpu(1, used=0, minutes=range(30, MINUTES)),
        container("a", gib=4, used=3, sm=0.5),
        container("a", gib=4, used=3, sm=0.5, instance="b"),
        container("gone", gib=8, used=1, sm=0.1, minutes=range(60)),
        lines(catalogue.SOURCE_UP, 'node="n1",source="kubelet"', 0, range(6)),
        lines(catalogue.SOURCE_UP, 'node="n1",source="kubelet"', 1, range(6, MINUTES)),
        recent("a", peak=3),
        resized("c"),
        recent("b", peak=3, refusals=2, job=',cluster="one",instance="a"'),
        recent("b", peak=3, refusals=2, job=',cluster="one",instance="b"'),
        recent("b", peak=15, refusals=9, job=',cluster="two",instance="a"'),
    )
    families: dict[str, list[str]] = {}
    for family, line in samples:
        families.setdefault(family, []).append(line)
    return "\n".join([*chain.from_iterable(families.values()), "# EOF\n"])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def prometheus(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    folder = tmp_path_factory.mktemp("prometheus")
    (folder / "page").write_text(exposition())
    (folder / "prometheus.yml").write_text("{}")
    await asyncio.to_thread(
        promtool, "tsdb", "create-blocks-from", "openmetrics", folder / "page", folder / "data"
    )
    (port,) = free_ports(1)
    url = f"http://{LOOPBACK}:{port}"
    argv = [
        str(program("prometheus")),
        f"--config.file={folder}/prometheus.yml",
        f"--storage.tsdb.path={folder}/data",
        "--storage.tsdb.retention.time=100y",
        # Shorter than the minute between two samples: a gap is visible at once.
        "--query.lookback-delta=59s",
        f"--web.listen-address={LOOPBACK}:{port}",
    ]
    process = Process(Command("prometheus", argv, folder, ready=url_ready(f"{url}/-/ready")))
    await process.start()
    yield url
    await process.stop()


async def collected(api: Api, url: str, namespace: str | None = None) -> UsageFacts:
    async with await ApiSource(api.kubeconfig).client() as client:
        return await collect(client, namespace, url, SPAN, cluster=None)


def accounted(facts: UsageFacts) -> Account:
    return account(facts, SPAN, whole=True)


async def test_rows_add_up_to_the_gpus(api: Api, prometheus: str) -> None:
    api.pods = [pod("a", "n1", 4, namespace="ml")]
    facts = await collected(api, prometheus)
    found = accounted(facts)
    assert comma_separated(found).splitlines()[1:] == [
        "ml,,(unknown),0.500,0.100,8.000,1.000",
        "ml,Pod,a,0.500,1.000,8.000,6.000",
        ",,(no container),2.500,0.000,40.000,3.000",
    ]
    assert account_document(found, SPAN, facts.notes)["total"] == {
        "allocatedGpuHours": 3.5,
        "usedGpuHours": 1.1,
        "allocatedGibHours": 56.0,
        "usedGibHours": 10.0,
    }


async def test_gaps_and_unknown_owners_are_reported(api: Api, prometheus: str) -> None:
    facts = await collected(api, prometheus)
    assert list(gap_lines(accounted(facts), SPAN)) == [
        "no data of GPU 1 of node n1 for 0.50 of 2.00 h; nothing is counted in that time"
    ]
    silent, unknown = facts.notes
    assert silent == (
        "source kubelet of the exporter n1 did not respond for 0.10 h; its values are missing in that time"
    )
    assert unknown.startswith("2 pods are gone and have the owner (unknown)")


async def test_a_namespace_has_its_containers_only(api: Api, prometheus: str) -> None:
    assert {each.namespace for each in (await collected(api, prometheus, "ml")).shares} == {"ml"}
    assert (await collected(api, prometheus, "other")).shares == []


async def test_without_the_right_to_list_pods_owners_are_unknown(api: Api, prometheus: str) -> None:
    api.pods, api.forbidden = [pod("a", "n1", 4, namespace="ml")], {"/api/v1/pods"}
    facts = await collected(api, prometheus)
    assert facts.owners == {}
    assert any(note.startswith("the owners of pods come from Prometheus alone: ") for note in facts.notes)


async def test_a_time_without_series_is_an_error(api: Api, prometheus: str) -> None:
    code, _, err = await call(api, "report", "-A", "--since", "1h", "--prometheus", prometheus)
    assert code == 1
    assert err.endswith("has no gpushare_card_memory_bytes in this time; let it scrape the exporters\n")


async def test_a_recommendation_has_the_peak_of_the_window(api: Api, prometheus: str) -> None:
    api.pods = [pod("a", "n1", 4)]
    (item,) = (
        await documented(api, "recommend", "--prometheus", prometheus, "--window", "1h", "-o", "json")
    )["items"]
    assert (item["peakBytes"], item["basis"], item["suggestedUnits"]) == (3 * GIB, "peak of the window", 4)
    _, out, _ = await call(api, "recommend", "--prometheus", prometheus, "--window", "1h", "--margin", "0")
    assert out.splitlines()[1].split()[-6:] == ["3", "GiB", "(lower)", "peak", "of", "1h"]


async def test_a_recommendation_ignores_the_size_of_an_earlier_pod_of_that_name(
    api: Api, prometheus: str
) -> None:
    api.pods = [pod("c", "n1", 4)]
    (item,) = (
        await documented(api, "recommend", "--prometheus", prometheus, "--window", "1h", "-o", "json")
    )["items"]
    assert (item["peakBytes"], item["suggestedUnits"]) == (3 * GIB, 4)


async def test_a_recommendation_counts_each_series_of_its_cluster_once(api: Api, prometheus: str) -> None:
    api.pods = [pod("b", "n1", 4)]
    arguments = ("--prometheus", prometheus, "--window", "1h", "--cluster", "one", "-o", "json")
    (item,) = (await documented(api, "recommend", *arguments))["items"]
    assert (item["peakBytes"], item["refusals"], item["suggestedUnits"]) == (3 * GIB, 2, 5)
