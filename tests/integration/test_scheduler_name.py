"""The scheduler of new pods with GPU memory beside a sidecar: set by a policy or a webhook, or a warning."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from components.config_extender import Extender, Scheduler, Webhook
from components.manifests import scheduler_name
from components.manifests.parts import Object
from components.render import as_yaml
from devkit.ports import free_ports
from gpushare.contract import RESOURCE_CORE, RESOURCE_MEM
from gpushare.kubescheduler.config import parse_version
from testbed import Bed, SchedulerSpec, Testbed, gpu_pod, until
from testbed.control_plane.pki import Authority
from testbed.daemons import console_script
from testbed.programs.binaries import release
from tests.support.fixtures.sidecars import apply, scheduler_of
from tests.support.warnings_shown import warnings_of

pytestmark = [pytest.mark.kubernetes, pytest.mark.asyncio(loop_scope="module")]

PODS = "/api/v1/namespaces/default/pods"
NAME = "gpushare-scheduler"
DEFAULT = "default-scheduler"


CLAIMED_BY = pytest.mark.parametrize("bed", ["policy", "webhook"], indirect=True)
WARNED_BY = pytest.mark.parametrize("bed", ["policy before 1.36"], indirect=True)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def empty_bed() -> AsyncIterator[Bed]:
    async with Testbed(kwok=False, scheduler=SchedulerSpec(None)) as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bed(
    empty_bed: Bed, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Bed]:
    """A cluster with what names the scheduler, from 1.36 on or before, or with what warns before 1.36."""
    made = empty_bed
    if request.param == "webhook":
        objects = [await served(made, tmp_path_factory.mktemp("tls"))]
    else:
        objects = policies(release() if request.param == "policy" else "1.35")
    await apply(made, objects)

    async def in_force() -> bool:
        named = await scheduler_of(made, gpu_pod("probe", 1)) == NAME
        return named or bool(await warnings_of(made, gpu_pod("probe", 1)))

    await until(in_force, f"the {request.param} to be in force")
    yield made
    await remove(made, objects)

    async def out_of_force() -> bool:
        return not await in_force()

    await until(out_of_force, f"the {request.param} to be out of force")


async def remove(bed: Bed, objects: list[Object]) -> None:
    await bed.kubectl("delete", "--cascade=foreground", "-f", "-", stdin=as_yaml(objects))


def policies(version: str, *, webhook: Webhook | None = None) -> list[Object]:
    scheduler = Scheduler("image", webhook=webhook)
    return scheduler_name.objects(Extender(), scheduler, parse_version(version))


async def served(bed: Bed, folder: Path) -> Object:
    """Start the webhook with the deployed command; return its configuration, with a local address."""
    authority = Authority.create("webhooks")
    authority.server("webhook", ["127.0.0.1"]).write(folder, "tls")
    webhook = Webhook("secret", authority.pair().cert.decode())
    objects = {each["kind"]: each for each in policies("1.35", webhook=webhook)}
    (one,) = objects["Deployment"]["spec"]["template"]["spec"]["containers"]
    port, ops_port = free_ports(2)
    flags = [each.replace("/etc/gpushare/tls", str(folder)) for each in one["command"][1:]]
    env = {"PORT": str(port), "OPS_PORT": str(ops_port)}
    ready = f"http://127.0.0.1:{ops_port}/readyz"
    await bed.spawn("webhook", [console_script("gpushare"), *flags], env=env, ready=ready)
    return at_url(objects["MutatingWebhookConfiguration"], f"https://127.0.0.1:{port}")


def at_url(configuration: Object, url: str) -> Object:
    """The configuration with a URL instead of the Service, and time for a slow machine."""
    webhook = configuration["webhooks"][0]
    webhook["clientConfig"]["url"] = url + webhook["clientConfig"].pop("service")["path"]
    webhook["timeoutSeconds"] = 30
    return configuration


def container(**limits: str) -> Object:
    return {"name": "c", "image": "example.com/image", "resources": {"limits": limits}}


def pod(**spec: Any) -> Object:
    return gpu_pod("p", **spec)


CLAIMED = {
    "memory": gpu_pod("p", 4),
    "memory of a second container": pod(
        containers=[{"name": "first", "image": "i"}, container(**{RESOURCE_MEM: "1"})]
    ),
    "memory of an init container": pod(initContainers=[container(**{RESOURCE_MEM: "1"})]),
    "several GPUs": gpu_pod("p", 4, labels={"aliyun.com/gpu-count": "2"}),
    "compute": gpu_pod("p", resources={RESOURCE_CORE: "30"}),
    "the default scheduler by name": gpu_pod("p", 4, schedulerName=DEFAULT),
    "lists with duplicates": pod(
        containers=[container(**{RESOURCE_MEM: "1"}) | {"env": [{"name": "A", "value": v} for v in "xy"]}]
    ),
}


@CLAIMED_BY
@pytest.mark.parametrize("what", CLAIMED)
async def test_a_new_pod_gets_the_scheduler_if_it_requests(bed: Bed, what: str) -> None:
    assert await scheduler_of(bed, CLAIMED[what]) == NAME


LEFT_ALONE = {
    "another scheduler": (gpu_pod("p", 4, schedulerName="batch"), "batch"),
    "no GPU memory": (gpu_pod("p"), DEFAULT),
    "whole GPUs": (gpu_pod("p", resources={"nvidia.com/gpu": "1"}), DEFAULT),
    "the number of GPUs without memory": (gpu_pod("p", labels={"aliyun.com/gpu-count": "2"}), DEFAULT),
    "a node": (gpu_pod("p", 4, nodeName="n"), DEFAULT),
}


@CLAIMED_BY
@pytest.mark.parametrize("what", LEFT_ALONE)
async def test_a_new_pod_keeps_its_scheduler_if_it_names(bed: Bed, what: str) -> None:
    manifest, scheduler = LEFT_ALONE[what]
    assert await scheduler_of(bed, manifest) == scheduler


@CLAIMED_BY
async def test_the_pods_of_a_deployment_get_the_scheduler(bed: Bed) -> None:
    await apply(bed, [deployment()])

    async def made() -> list[Object]:
        return await bed.api.items(PODS, labelSelector="app=d")

    (found,) = await until(made, "the pod of the Deployment")
    assert found["spec"]["schedulerName"] == NAME
    await remove(bed, [deployment()])


def deployment(**spec: Any) -> Object:
    template = {
        "metadata": {"labels": {"app": "d"}},
        "spec": {"containers": [container(**{RESOURCE_MEM: "1"})], **spec},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "d"}}, "template": template},
    }


def cron_job() -> Object:
    spec = {**deployment()["spec"]["template"]["spec"], "restartPolicy": "Never"}
    job = {"spec": {"template": {"spec": spec}}}
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "c", "namespace": "default"},
        "spec": {"schedule": "* * * * *", "jobTemplate": job},
    }


WARNED = {"pod": gpu_pod("p", 4), "workload": deployment(), "job of a schedule": cron_job()}
SILENT = {
    "the scheduler": gpu_pod("p", 4, schedulerName=NAME),
    "the scheduler in a workload": deployment(schedulerName=NAME),
    "no GPU memory": gpu_pod("p"),
}


@WARNED_BY
@pytest.mark.parametrize("what", WARNED)
async def test_before_1_36_there_is_a_warning_for_a(bed: Bed, what: str) -> None:
    text = await warnings_of(bed, WARNED[what])
    assert "pods that request GPU memory need schedulerName: gpushare-scheduler" in text


@WARNED_BY
@pytest.mark.parametrize("what", SILENT)
async def test_before_1_36_there_is_no_warning_for_a_manifest_with(bed: Bed, what: str) -> None:
    assert await warnings_of(bed, SILENT[what]) == ""


@WARNED_BY
async def test_pods_are_created_while_the_webhook_cannot_be_reached(bed: Bed) -> None:
    webhook = Webhook("secret", Authority.create("webhooks").pair().cert.decode())
    *_, configuration = policies("1.35", webhook=webhook)
    (port,) = free_ports(1)
    await apply(bed, [at_url(configuration, f"https://127.0.0.1:{port}")])
    assert await scheduler_of(bed, gpu_pod("p", 4)) == DEFAULT
    await remove(bed, [configuration])
