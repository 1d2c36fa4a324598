"""Certificates of the real command on the real API server, used by real schedulers and the extender."""

import asyncio
import base64
import shlex
import sys
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

import pytest
import pytest_asyncio

from components.config_extender import Exposure, Extender
from components.config_monitoring import MetricsApi
from components.manifests import certificates, metrics_api
from components.render import as_yaml
from devkit.process import Process, run_text
from gpushare.adapters.kube.client import KubeClient
from gpushare.adapters.kube.config import load_access
from gpushare.contract import (
    AUTHORITY_SECRET,
    CLIENT_TLS_SECRET,
    EXTENDER_TLS_SECRET,
    METRICS_AUTHORITY_SECRET,
    METRICS_CERTIFICATES_NAME,
    METRICS_TLS_SECRET,
    USAGE_API_GROUP,
)
from gpushare.errors import ApiError
from gpushare.kubescheduler.config import KubernetesVersion
from gpushare.runtime.certificates import expiry_of
from testbed import Bed, DevkitError, SchedulerSpec, SimGpu, SimNode, gpu_pod, until
from testbed.control_plane.api import read_text
from testbed.daemons.extender import ExtenderSpec, component_config, grant, start_extender
from tests.support.builders.stacks import ROOT
from tests.support.fixtures.gpu_nodes import bound
from tests.support.pages import Command, steps

pytestmark = pytest.mark.asyncio(loop_scope="session")

PAGE = (ROOT / "docs/how-to/certificates.md").read_text()
ACCOUNT = "system:serviceaccount:kube-system:gpushare-certificates"
SECRETS = "/api/v1/namespaces/kube-system/secrets"
NAMES = (AUTHORITY_SECRET, EXTENDER_TLS_SECRET, CLIENT_TLS_SECRET)
MADE = [f"changed: {AUTHORITY_SECRET}: a new authority"] + [
    f"changed: {name}: a new certificate" for name in NAMES[1:]
]


@dataclass
class Scene:
    """A control plane with the objects of the stack, and the files that pods mount from its Secrets."""

    bed: Bed
    folder: Path

    async def run(self, *flags: str) -> list[str]:
        """Run the command with the rights of its Job; return its lines."""
        kubeconfig = self.bed.kubeconfig_for(ACCOUNT)
        argv = [sys.executable, "-m", "gpushare", "certificates", f"--kubeconfig={kubeconfig}", *flags]
        return (await run_text(argv, timeout_s=60)).splitlines()

    async def data(self, name: str) -> dict[str, bytes]:
        secret = await self.bed.api.get(f"{SECRETS}/{name}")
        return {key: base64.b64decode(text) for key, text in (secret.get("data") or {}).items()}

    async def mount(self) -> None:
        """Write the files as the kubelet and the installer do."""
        for name in NAMES[1:]:
            (self.folder / name).mkdir(exist_ok=True)
            for key, content in (await self.data(name)).items():
                (self.folder / name / key).write_bytes(content)

    def extender(self) -> ExtenderSpec:
        files = {"tls-cert": "tls.crt", "tls-key": "tls.key", "client-ca": "ca.crt"}
        flags = [f"--{flag}={self.folder}/{EXTENDER_TLS_SECRET}/{name}" for flag, name in files.items()]
        return ExtenderSpec(flags=flags)

    def scheduler(self, version: str, spec: ExtenderSpec) -> SchedulerSpec:
        url = spec.url.replace("http:", "https:")
        entry = component_config(url, legacy=version == "1.22", certificates=self.folder / CLIENT_TLS_SECRET)
        return SchedulerSpec(version, extenders=[entry])


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def scene(clean_bed: Bed, tmp_path_factory: pytest.TempPathFactory) -> Scene:
    await apply(clean_bed)
    await grant(clean_bed)
    await clean_bed.add_nodes([SimNode("n", [SimGpu(), SimGpu()])])
    return Scene(clean_bed, tmp_path_factory.mktemp("mounted"))


async def apply(bed: Bed) -> None:
    """The objects of the stack; nothing here runs its Jobs."""
    objects = certificates.objects(
        Extender(exposure=Exposure.NODE_PORT, certificates_image="example.com/cli:1"),
        KubernetesVersion(1, 36),
    )
    await bed.kubectl("apply", "--server-side", "--validate=strict", "-f", "-", stdin=as_yaml(objects))


async def test_secrets_are_created_and_filled_once_and_applying_the_stack_again_keeps_them(
    scene: Scene,
) -> None:
    assert await scene.run() == MADE
    before = {name: await scene.data(name) for name in NAMES}
    assert before[AUTHORITY_SECRET].keys() == {"tls.crt", "tls.key"}
    assert (
        before[CLIENT_TLS_SECRET].keys()
        == before[EXTENDER_TLS_SECRET].keys()
        == {"tls.crt", "tls.key", "ca.crt"}
    )
    await apply(scene.bed)
    assert await scene.run() == [f"unchanged: {name}" for name in NAMES]
    assert {name: await scene.data(name) for name in NAMES} == before


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", SECRETS), ("GET", SECRETS), ("GET", f"{SECRETS}/other"), ("DELETE", f"{SECRETS}/{NAMES[0]}")],
)
async def test_the_account_has_no_other_right_to_secrets(scene: Scene, method: str, path: str) -> None:
    async with KubeClient(await load_access(str(scene.bed.kubeconfig_for(ACCOUNT)))) as client:
        with pytest.raises(ApiError) as refused:
            await client.request(method, path, timeout_s=10, body={"metadata": {"name": "other"}})
    assert refused.value.status == HTTPStatus.FORBIDDEN


async def test_the_account_creates_no_secret_of_another_name(scene: Scene) -> None:
    other = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "other"}}
    path, query = f"{SECRETS}/other", {"fieldManager": "gpushare-secrets"}
    async with KubeClient(await load_access(str(scene.bed.kubeconfig_for(ACCOUNT)))) as client:
        with pytest.raises(ApiError) as refused:
            await client.request("PATCH", path, timeout_s=10, query=query, body=other, is_apply=True)
    assert refused.value.status == HTTPStatus.FORBIDDEN


async def test_the_account_may_create_nothing_in_another_namespace(scene: Scene) -> None:
    with pytest.raises(DevkitError, match=f"{AUTHORITY_SECRET}.* is forbidden"):
        await scene.run("--namespace=default")


@pytest.mark.parametrize("version", ["1.22", "1.36"])
async def test_the_scheduler_binds_with_the_certificates_of_the_stack(scene: Scene, version: str) -> None:
    await scene.run()
    await scene.mount()
    spec = scene.extender()
    process = await start_extender(scene.bed, spec)
    await scene.bed.restart_scheduler(scene.scheduler(version, spec))
    name = f"p-{version.replace('.', '-')}"
    await scene.bed.create_pods([gpu_pod(name, 2)])
    assert "ALIYUN_COM_GPU_MEM_IDX" in (await bound(scene.bed, name))["metadata"]["annotations"]
    await process.stop()


async def test_renewed_certificates_are_used_without_a_restart_of_the_scheduler(scene: Scene) -> None:
    await scene.run()
    await scene.mount()
    spec = scene.extender()
    process = await start_extender(scene.bed, spec)
    await scene.bed.restart_scheduler(scene.scheduler("1.36", spec))
    await scene.bed.create_pods([gpu_pod("before", 2)])
    await bound(scene.bed, "before")
    assert await scene.run("--renew") == [
        f"unchanged: {AUTHORITY_SECRET}",
        *(f"changed: {name}: renewed as requested" for name in NAMES[1:]),
    ]
    before = times_served(process)
    await scene.mount()
    await until_served(process, before)
    process = await new_connections(scene, process, spec)
    await scene.bed.create_pods([gpu_pod("after", 2)])
    await bound(scene.bed, "after")
    for certificate, secret in (
        ("server", EXTENDER_TLS_SECRET),
        ("system:kube-scheduler", CLIENT_TLS_SECRET),
    ):
        expected = expiry_of((scene.folder / secret / "tls.crt").read_text())
        assert await reported(spec, certificate) == expected
    await process.stop()


async def test_the_documented_way_to_another_authority_needs_no_restart_of_the_extender(scene: Scene) -> None:
    """The Job, which the second command creates, is run here as a process."""
    await scene.run()
    await scene.mount()
    spec = scene.extender()
    process = await start_extender(scene.bed, spec)
    commands = [each for each in steps(PAGE) if isinstance(each, Command)]
    remove, create = (each.line for each in commands if each.section == "Replace the authority")
    await scene.bed.kubectl(*shlex.split(remove)[1:])
    await scene.bed.kubectl(*shlex.split(create)[1:], "--dry-run=server")
    assert await scene.run() == [
        f"changed: {AUTHORITY_SECRET}: a new authority",
        *(f"changed: {name}: replaced, because an earlier authority signed it" for name in NAMES[1:]),
    ]
    before = times_served(process)
    await scene.mount()
    await until_served(process, before)
    await scene.bed.restart_scheduler(scene.scheduler("1.36", spec))
    await scene.bed.create_pods([gpu_pod("another-authority", 2)])
    await bound(scene.bed, "another-authority")
    await process.stop()


def times_served(process: Process) -> int:
    """How often the extender has loaded other certificates. Its log is that of all its processes."""
    return process.command.log.read_text().count("certificate_served")


async def until_served(process: Process, before: int) -> None:
    async def served() -> bool:
        return times_served(process) > before

    await until(served, "the extender to load the certificate", 30)


async def new_connections(scene: Scene, process: Process, spec: ExtenderSpec) -> Process:
    """Restart the extender: the scheduler connects again. In production a connection ends after an hour."""
    await process.stop()
    return await start_extender(scene.bed, spec)


async def reported(spec: ExtenderSpec, certificate: str) -> float:
    name = f'gpushare_extender_certificate_expiration_timestamp_seconds{{certificate="{certificate}"}} '
    lines = (await read_text(f"{spec.ops_url}/metrics")).splitlines()
    (value,) = [line.removeprefix(name) for line in lines if line.startswith(name)]
    return float(value)


API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
USAGE = f"v1.{USAGE_API_GROUP}"
MAKER = f"system:serviceaccount:kube-system:{METRICS_CERTIFICATES_NAME}"


async def certify(bed: Bed, *names: str) -> list[str]:
    """Run the command of the metrics API with the rights of its Job; return its lines."""
    argv = [sys.executable, "-m", "gpushare", "certificates", f"--kubeconfig={bed.kubeconfig_for(MAKER)}"]
    flags = [f"--api-service={name}" for name in names]
    return (await run_text([*argv, *flags], timeout_s=60)).splitlines()


async def deploy_metrics_api(bed: Bed) -> None:
    """As Pulumi applies it, and Helm 4."""
    api = MetricsApi(image="example.com/metrics-api:1", certificates_image="example.com/cli:1")
    objects = as_yaml(metrics_api.objects(api, KubernetesVersion(1, 36)))
    flags = ("--server-side", "--validate=strict", "--field-manager=gpushare")
    await bed.kubectl("apply", *flags, "-f", "-", stdin=objects)


async def test_the_api_server_trusts_the_metrics_api_and_applying_the_stack_again_changes_nothing(
    scene: Scene,
) -> None:
    bed = scene.bed
    await deploy_metrics_api(bed)
    lines = await certify(bed, USAGE)
    assert lines == [
        f"changed: {METRICS_AUTHORITY_SECRET}: a new authority",
        f"changed: {METRICS_TLS_SECRET}: a new certificate",
        f"changed: {USAGE}: caBundle",
    ]
    made = await bed.api.get(f"{API_SERVICES}/{USAGE}")
    data = await scene.data(METRICS_TLS_SECRET)
    assert base64.b64decode(made["spec"]["caBundle"]) == data["ca.crt"]
    await deploy_metrics_api(bed)
    assert await bed.api.get(f"{API_SERVICES}/{USAGE}") == made
    assert await certify(bed, USAGE) == [
        f"unchanged: {name}" for name in (METRICS_AUTHORITY_SECRET, METRICS_TLS_SECRET, USAGE)
    ]


async def test_the_job_waits_for_apiservices_which_helm_creates_last(scene: Scene) -> None:
    await scene.bed.api.delete(f"{API_SERVICES}/{USAGE}")
    running = asyncio.create_task(certify(scene.bed, USAGE))
    await deploy_metrics_api(scene.bed)
    assert (await running)[-1] == f"changed: {USAGE}: caBundle"


async def test_the_account_may_change_no_apiservice_that_is_not_of_the_stack(scene: Scene) -> None:
    with pytest.raises(DevkitError, match=r"v1\.apps.* is forbidden"):
        await certify(scene.bed, "v1.apps")
