"""The rendered Prometheus of a stack with the oldest supported release, and the rights of its account.

Debian's Prometheus is built without the discovery of Kubernetes: the test lists the pods instead, with the
selectors of the configuration and the rights of the account. ``tests/e2e/test_managed.py`` runs a new release
as a pod, with discovery.
"""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import pytest_asyncio
import yaml

from components.manifests import everything
from components.manifests.prometheus import NAME
from components.render import as_yaml
from components.stack import load
from devkit.ports import LOOPBACK, free_ports
from gpushare.contract import EXPORTER_NAME
from testbed import Bed, until
from testbed.control_plane.api import MERGE_PATCH
from testbed.daemons.prometheus import PrometheusServer
from testbed.programs.debian import program
from tests.support.builders.stacks import DIGEST, raw_stack
from tests.support.fixtures.prometheus import ScrapedCluster, scraped_cluster

pytestmark = [pytest.mark.needs("kubelet", "prometheus"), pytest.mark.asyncio(loop_scope="module")]
SYSTEM = "/api/v1/namespaces/kube-system"
ACCOUNT = f"system:serviceaccount:kube-system:{NAME}"
Object = dict[str, Any]


def rendered() -> dict[str, Object]:
    """The objects of Prometheus by kind."""
    monitoring = {"exporter": {"image": DIGEST}, "prometheus": {"image": DIGEST}}
    objects = everything(load(raw_stack(monitoring=monitoring)))
    return {each["kind"]: each for each in objects if each["metadata"]["name"] == NAME}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene() -> AsyncIterator[ScrapedCluster]:
    async with scraped_cluster() as found:
        yield found


async def exporter_pod(bed: Bed, url: str) -> None:
    """A pod with the labels, the port and the address of the exporter, which runs as a process."""
    address = urlsplit(url)
    ports = [{"name": "ops", "containerPort": address.port}, {"name": "other", "containerPort": 1}]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": EXPORTER_NAME,
            "namespace": "kube-system",
            "labels": {"app": "gpushare", "component": EXPORTER_NAME},
        },
        "spec": {"nodeName": "elsewhere", "containers": [{"name": "main", "image": DIGEST, "ports": ports}]},
    }
    await bed.until_service_account("kube-system")
    await bed.api.request("POST", f"{SYSTEM}/pods", pod)
    status = {"phase": "Running", "podIP": address.hostname, "podIPs": [{"ip": address.hostname}]}
    path = f"{SYSTEM}/pods/{EXPORTER_NAME}/status"
    await bed.api.request("PATCH", path, {"status": status}, content_type=MERGE_PATCH)


async def discovered(bed: Bed, discovery: Object) -> list[Object]:
    """The targets of a ``kubernetes_sd_configs``: each port of the pods, with its labels."""
    (namespace,) = discovery["namespaces"]["names"]
    (selector,) = discovery["selectors"]
    async with bed.api_for(ACCOUNT) as client:
        path = f"/api/v1/namespaces/{namespace}/pods"
        pods = (await client.get(path, labelSelector=selector["label"]))["items"]
    return [
        {
            "targets": [f"{pod['status']['podIP']}:{port['containerPort']}"],
            "labels": {
                "__meta_kubernetes_pod_container_port_name": port["name"],
                "__meta_kubernetes_pod_node_name": pod["spec"]["nodeName"],
            },
        }
        for pod in pods
        for port in pod["spec"]["containers"][0]["ports"]
    ]


async def written(bed: Bed, folder: Path) -> Path:
    """The files of the ConfigMap, faster, and with the discovered targets."""
    data = rendered()["ConfigMap"]["data"]
    for name, text in data.items():
        (folder / name).write_text(text)
    configuration = yaml.safe_load(data["prometheus.yml"])
    configuration["global"] = dict.fromkeys(configuration["global"], "1s")
    for job in configuration["scrape_configs"]:
        job["scrape_interval"] = "1s"
        (discovery,) = job.pop("kubernetes_sd_configs")
        job["static_configs"] = await discovered(bed, discovery)
    path = folder / "prometheus.yml"
    path.write_text(json.dumps(configuration))
    return path


async def test_it_scrapes_the_exporter_that_its_account_may_find(
    scene: ScrapedCluster, tmp_path: Path
) -> None:
    bed, objects = scene.bed, rendered()
    await bed.apply(as_yaml([objects[kind] for kind in ("ServiceAccount", "Role", "RoleBinding")]))
    await exporter_pod(bed, scene.exporter)
    (port,) = free_ports(1)
    url = f"http://{LOOPBACK}:{port}"
    (container,) = objects["Deployment"]["spec"]["template"]["spec"]["containers"]
    here = {
        "--config.file": str(await written(bed, tmp_path)),
        "--storage.tsdb.path": str(tmp_path / "data"),
        "--web.listen-address": f"{LOOPBACK}:{port}",
    }
    flags = [flag.partition("=") for flag in container["args"]]
    argv = [f"{name}={here.get(name, value)}" for name, _, value in flags]
    process = await bed.spawn("stack-prometheus", [str(program("prometheus")), *argv], ready=f"{url}/-/ready")
    prometheus = PrometheusServer(process, url)
    cards = "count by (node) (gpushare_card_memory_bytes)"
    assert await until(lambda: prometheus.values(cards, "node"), "series of GPUs", 30) == {("t4",): 2}

    async def up() -> bool:
        return await prometheus.values("up", "job", "node") == {("gpushare", "elsewhere"): 1}

    await until(up, "a scrape of the exporter", 30)
    await until(lambda: prometheus.ask("cluster:gpushare_memory_bytes:sum"), "recorded series", 30)
