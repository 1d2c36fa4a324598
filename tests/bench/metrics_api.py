"""``make bench PART=metrics-api``: the time until an HPA has the values of 512 pods.

The API server, the exporter and the metrics API are real; the driver, the kubelet's PodResources API and
``/proc`` are those of ``tests.bench.exporter``. Two ways are measured: requests to the metrics API itself, as
from the API server, and requests through the API server, as from an HPA.
"""

import asyncio
import ssl
import time
from collections.abc import Mapping

import aiohttp
import click

from devkit.ports import LOOPBACK
from gpushare.contract import EXPORTER_NAME
from testbed import Bed, SchedulerSpec, Testbed
from testbed.daemons.exporter import grant_exporter
from testbed.daemons.metricsapi import start_metrics_api
from tests.bench.exporter import Load, exporting
from tests.bench.measuring import cpu_s, ms, percentiles, rss_mib
from tests.support.machine import machine

LOAD = Load("large", 16, 32)
PODS = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/default/pods/*/DCGM_CUSTOM_PROCESS_SM_UTIL"
BASELINE = "/healthz"
ROUNDS, PAUSE_S = 300, 0.05
HPA = "system:serviceaccount:kube-system:horizontal-pod-autoscaler"
SELECTOR = {"labelSelector": "absent!=x"}


@click.command()
def main() -> None:
    """Print the results as Markdown."""
    click.echo(f"{machine()}\n")
    asyncio.run(measure())


async def measure() -> None:
    """Measure both ways, over connections that stay open."""
    async with Testbed(scheduler=SchedulerSpec(None), kwok=False) as bed:
        await grant_exporter(bed)
        async with exporting(bed, LOAD) as (_, url):
            await _exporter_pod(bed)
            port = url.rpartition(":")[2]
            api = await start_metrics_api(bed, [f"--exporter-port={port}", "--log-level=warn"])
            busy = cpu_s(api.process.pid)
            await ask_often("itself", api.url, _front_proxy(bed), {"X-Remote-User": HPA})
            await ask_often("through the API server", bed.api_url, bed.credentials.context(), {})
            cost = (cpu_s(api.process.pid) - busy) / (2 * ROUNDS)
            click.echo(f"\nProcessor time for each, scrapes included: {ms(cost)}.")
            click.echo(f"Resident after that: {rss_mib(api.process.pid):.0f} MiB.")


async def ask_often(name: str, url: str, tls: ssl.SSLContext, headers: Mapping[str, str]) -> None:
    """Alternate between a query for all pods and an empty answer, the baseline."""
    took: dict[str, list[float]] = {BASELINE: [], PODS: []}
    size = dict.fromkeys(took, 0)
    async with aiohttp.ClientSession(headers=dict(headers)) as session:
        for _ in range(ROUNDS):
            for path, seen in took.items():
                begun = time.perf_counter()
                async with session.get(f"{url}{path}", params=SELECTOR, ssl=tls) as answer:
                    size[path] = len(await answer.read())
                    answer.raise_for_status()
                seen.append(time.perf_counter() - begun)
                await asyncio.sleep(PAUSE_S)
    for path, seen in took.items():
        what = "512 pods" if path == PODS else path
        click.echo(f"{name}, {what}: {size[path]:,} bytes, {percentiles(seen)}")


def _front_proxy(bed: Bed) -> ssl.SSLContext:
    """The API server's own way to the metrics API."""
    context = ssl.create_default_context(cafile=str(bed.ca_file))
    pki = bed.layout.pki
    context.load_cert_chain(pki / "front-proxy-client.crt", pki / "front-proxy-client.key")
    return context


async def _exporter_pod(bed: Bed) -> None:
    """A pod where the exporter listens, as its DaemonSet's would be."""
    await bed.until_service_account("kube-system")
    path = "/api/v1/namespaces/kube-system/pods"
    metadata = {"name": EXPORTER_NAME, "labels": {"component": EXPORTER_NAME}}
    spec = {"nodeName": LOAD.node, "containers": [{"name": "main", "image": "none"}]}
    await bed.api.create(path, {"metadata": metadata, "spec": spec})
    status = {"phase": "Running", "podIP": LOOPBACK, "podIPs": [{"ip": LOOPBACK}]}
    await bed.api.patch(f"{path}/{EXPORTER_NAME}/status", {"status": status})


if __name__ == "__main__":
    main()
