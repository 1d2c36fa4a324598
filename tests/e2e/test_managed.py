"""The stack of the page "Install" where nobody can configure the scheduler of the cluster.

Three replicas of extender and kube-scheduler run as pods on real kubelets, from our images and from an image
with the real program; so does the Prometheus of the stack. Pods name no scheduler.
"""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import pytest_asyncio
import yaml

from devkit.ports import LOOPBACK, free_ports
from devkit.process import Process, Ready
from devkit.waiting import together
from gpushare.contract import BOARD_NAME, EXTENDER_NAME
from release import Images, ensure
from testbed import Bed, SimNode, Testbed, until
from testbed.control_plane.aggregation import TO_PODS
from testbed.control_plane.components import url_ready
from testbed.daemons.prometheus import PrometheusServer
from testbed.kubelets import BUSYBOX_IMAGE, KubeletSpec, add_kubelet
from testbed.kubelets.services import load
from testbed.programs import build
from testbed.stories import T4
from testbed.stories.deployed import DeployedNode, add_node, by_pulumi
from testbed.stories.play import show
from tests.support.builders import program_image
from tests.support.builders.stacks import ROOT
from tests.support.fixtures.boards import BoardServer
from tests.support.fixtures.gpu_nodes import bound, running
from tests.support.fixtures.validations import validate
from tests.support.limits import limits
from tests.support.pages import Written, steps

pytestmark = [
    pytest.mark.needs("kubelet", "images", "playbooks"),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(600),
]

PAGE = (ROOT / "docs/how-to/install.md").read_text()
FILES = [each for each in steps(PAGE) if isinstance(each, Written)]
SIDECAR = "gpushare-scheduler"
SCHEDULER = f"registry.k8s.io/kube-scheduler@sha256:{'5' * 64}"
PROMETHEUS = f"docker.io/prom/prometheus@sha256:{'6' * 64}"
SYSTEM_PODS = "/api/v1/namespaces/kube-system/pods"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/{SIDECAR}"
PROGRAMS = {"kube-scheduler": SCHEDULER, "prometheus": PROMETHEUS}
WAIT_S = 120.0
"""More than the downloads of a node, and than an election with the durations of kube-scheduler."""


class Port(NamedTuple):
    """A local port that kubectl forwards."""

    process: Process
    number: int


@dataclass(frozen=True)
class Cluster:
    """A managed cluster after ``pulumi up``."""

    bed: Bed
    nodes: list[DeployedNode]

    async def extenders(self) -> list[Any]:
        """The pods of extender and scheduler."""
        return await self.bed.api.items(SYSTEM_PODS, labelSelector=f"component={EXTENDER_NAME}")


def configuration(images: Images) -> dict[str, Any]:
    """The stack of the page with three replicas; references replace the file of the digests.

    The CPU requests are lower, because the nodes here have two cores.
    """
    (stack,) = [yaml.safe_load(each.text) for each in FILES if each.path == "Pulumi.mine.yaml"]
    config = {key.removeprefix("gpushare:"): value for key, value in stack["config"].items()}
    del config["images"]
    references = images.references
    extender = {"image": references["extender"], "certificatesImage": references["cli"], "cpu": "500m"}
    config["extender"] |= {**extender, "replicas": 3, "scheduler": {"image": SCHEDULER, "cpu": "200m"}}
    config["devicePlugins"][0] |= {"image": references["device-plugin"], "cpu": "500m"}
    config["isolation"]["image"] = references["isolation"]
    config["monitoring"]["exporter"]["image"] = references["exporter"]
    config["monitoring"]["prometheus"] = {"image": PROMETHEUS, "cpu": "200m"}
    board = {"image": references["cli"], "tlsSecret": BOARD_NAME, "cpu": "100m"}
    api = {"image": references["metrics-api"], "certificatesImage": references["cli"], "cpu": "50m"}
    config["monitoring"] |= {"metricsApi": api, "board": board, "viewers": ["system:serviceaccounts:default"]}
    return config


def first_pod(name: str) -> str:
    """The pod of the page, with an image that has no nvidia-smi."""
    (pod,) = [yaml.safe_load(each.text) for each in FILES if each.path == "pod.yaml"]
    pod["metadata"]["name"] = name
    pod["spec"]["containers"][0] |= {"image": BUSYBOX_IMAGE, "command": ["sleep", "infinity"]}
    return yaml.safe_dump(pod)


async def saved(folder: Path, name: str, image: str) -> Path:
    """The archive of an image that runs one of the testbed's tools."""
    archive, program = folder / "image.tar", (await build.ensure([name]))[name].path
    await asyncio.to_thread(
        program_image.save, archive, image, {f"bin/{name}": program}, entrypoint=[f"/bin/{name}"]
    )
    return archive


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    images = await ensure()
    archives = await asyncio.gather(
        *(saved(tmp_path_factory.mktemp("image"), *each) for each in PROGRAMS.items())
    )
    async with Testbed(kwok=False, api_flags=TO_PODS) as bed:
        adding = [add_node(bed, SimNode(name, [T4]), images) for name in ("gpu-1", "gpu-2")]
        nodes = await together(adding)
        plain = await add_kubelet(bed, KubeletSpec("cpu-1", services=True))
        await load(plain, images)
        for kubelet in (plain, *(node.kubelet for node in nodes)):
            for archive in archives:
                await kubelet.load_images(archive)
        await bed.kubectl("label", "node", "gpu-1", "gpu-2", "cgpu=true")
        bed.credentials.server("board", ["localhost", LOOPBACK]).write(bed.folder, "board")
        files = [f"--{kind}={bed.folder}/board.{end}" for kind, end in (("cert", "crt"), ("key", "key"))]
        await bed.kubectl("-n", "kube-system", "create", "secret", "tls", BOARD_NAME, *files)
        await by_pulumi(bed, configuration(images))
        found = Cluster(bed, nodes)
        await together(node.until_offered(WAIT_S) for node in nodes)
        await until_ready(found)
        yield found


async def until_ready(cluster: Cluster) -> None:
    """Wait until both containers of three replicas are ready."""

    async def ready() -> bool:
        statuses = [pod["status"].get("containerStatuses", ()) for pod in await cluster.extenders()]
        return [[each["ready"] for each in both] for both in statuses] == [[True, True]] * 3

    await until(ready, "three replicas to be ready", WAIT_S)


async def test_a_pod_that_names_no_scheduler_shares_a_gpu(cluster: Cluster) -> None:
    await cluster.bed.apply(first_pod("shared"))
    pod = await running(cluster.bed, "shared", WAIT_S)
    assert pod["spec"]["schedulerName"] == SIDECAR
    assert [limit.split(" =")[0] for _, limit in await limits(cluster.bed)] == ["4308 MiB"]
    assert "4/28 (14%)" in await show(cluster.bed, "kubectl inspect gpushare")


async def test_the_validation_finds_that_the_scheduler_calls_the_extender(
    cluster: Cluster, tmp_path: Path
) -> None:
    report = await validate(cluster.bed, tmp_path, host="gpu-1")
    assert report.of_cluster("scheduler")["found"] == "calls the extender", report.document


async def test_other_pods_keep_the_scheduler_of_the_cluster(cluster: Cluster) -> None:
    await cluster.bed.kubectl("run", "other", f"--image={BUSYBOX_IMAGE}", "--", "sleep", "infinity")
    pod = await bound(cluster.bed, "other", WAIT_S)
    assert pod["spec"]["schedulerName"] == "default-scheduler"


async def test_the_replicas_run_on_different_nodes(cluster: Cluster) -> None:
    pods = await cluster.extenders()
    assert len({pod["spec"]["nodeName"] for pod in pods}) == 3


async def served_metrics(bed: Bed) -> set[tuple[str]]:
    """The addresses of the pods' ports with metrics."""
    return {
        (f"{pod['status']['podIP']}:{port['containerPort']}",)
        for pod in await bed.api.items(SYSTEM_PODS, labelSelector="app=gpushare")
        for container in pod["spec"]["containers"]
        for port in container.get("ports", ())
        if port["name"] == "ops"
    }


@asynccontextmanager
async def forwarded(bed: Bed, service: str, port: int, ready: Callable[[int], Ready]) -> AsyncIterator[Port]:
    """A Service of the stack through the command of its page."""
    (local,) = free_ports(1)
    kubectl = [str(bed.components.tools["kubectl"].path), f"--kubeconfig={bed.kubeconfig}"]
    command = ["--namespace", "kube-system", "port-forward", service, f"{local}:{port}"]
    process = await bed.spawn("forward", [*kubectl, *command], ready=ready(local))
    try:
        yield Port(process, local)
    finally:
        await process.stop()


async def test_the_prometheus_of_the_stack_scrapes_all_pods_and_evaluates_all_rules(
    cluster: Cluster,
) -> None:
    def ready(port: int) -> Ready:
        return url_ready(f"http://{LOOPBACK}:{port}/-/ready")

    async with forwarded(cluster.bed, "service/gpushare-prometheus", 9090, ready) as port:
        prometheus = PrometheusServer(port.process, f"http://{LOOPBACK}:{port.number}")

        async def complete() -> bool:
            expected = await served_metrics(cluster.bed)
            return await prometheus.values("up", "instance") == dict.fromkeys(expected, 1)

        await until(complete, "a scrape of every pod", WAIT_S)
        memory = "cluster:gpushare_memory_bytes:sum"
        found = await until(lambda: prometheus.values(memory), "recorded series", WAIT_S)
        assert found == {(): 2 * T4.mib << 20}
        rules = await prometheus.rules()
        assert {each["type"] for each in rules} == {"recording", "alerting"}
        assert {each["name"]: each["health"] for each in rules if each["health"] != "ok"} == {}


async def test_a_viewer_sees_the_usage_of_all_nodes_on_the_board_of_the_stack(cluster: Cluster) -> None:
    bed = cluster.bed
    tls = ssl.create_default_context(cafile=str(bed.ca_file))
    token = (await bed.kubectl("create", "token", "default")).strip()

    def ready(port: int) -> Ready:
        return url_ready(f"https://{LOOPBACK}:{port}/icon.svg", tls)

    async with forwarded(bed, "service/gpushare-board", 443, ready) as port:
        board = BoardServer(port.process, f"https://{LOOPBACK}:{port.number}", tls)
        assert (await board.get("/"))[0] == 401

        async def measured() -> Any:
            status, body = await board.get("/data", token)
            assert status == 200
            shown = json.loads(body)
            return shown if shown["measured"] == 2 else None

        shown = await until(measured, "the board to read both exporters", WAIT_S)
    assert [node["name"] for node in shown["nodes"]] == ["gpu-1", "gpu-2"]
    assert [each["level"] for each in shown["health"]] == ["ok"]


async def test_when_the_leading_scheduler_is_deleted_another_one_places_pods(cluster: Cluster) -> None:
    holder = (await cluster.bed.api.get(LEASE))["spec"]["holderIdentity"]
    names = [pod["metadata"]["name"] for pod in await cluster.extenders()]
    (leader,) = [name for name in names if holder.startswith(name)]
    await cluster.bed.api.delete(f"{SYSTEM_PODS}/{leader}")
    await cluster.bed.apply(first_pod("second"))
    await running(cluster.bed, "second", WAIT_S)
    await until_ready(cluster)
