"""The role scheduler_extender with a Secret of the stack: mutual TLS from the scheduler to the extender."""

import base64
import sys
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from components.config import Extender
from components.manifests import certificates
from components.render import as_yaml
from gpushare.contract import ANN_IDX, CLIENT_TLS_SECRET, EXTENDER_NODE_PORT, EXTENDER_TLS_SECRET
from gpushare.kubescheduler.config import KubernetesVersion
from testbed import Card, SchedulerSpec, SimNode, Testbed
from testbed.daemons.extender import ACCOUNT, ExtenderSpec, grant
from testbed.kubelets import KubeletSpec, add_kubelet
from testbed.system.process import run_text
from tests.fixtures import static_scheduler
from tests.fixtures.static_scheduler import TOOLS
from tests.integration.test_ansible_scheduler import ControlPlane, original

pytestmark = [
    pytest.mark.integration,
    pytest.mark.needs("kubelet", "playbooks"),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(1800),
]

SECRETS = "/api/v1/namespaces/kube-system/secrets"
TLS_FOLDER = "/etc/kubernetes/gpushare"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plane(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[ControlPlane]:
    folder = tmp_path_factory.mktemp("plane")
    async with Testbed(scheduler=SchedulerSpec(None)) as bed:
        spec = KubeletSpec("cp", config=static_scheduler.STATIC_PODS)
        plane = ControlPlane(bed, await add_kubelet(bed, spec), request.param, folder)
        await bed.add_nodes([SimNode("n", [Card()])])
        await grant(bed)
        await static_scheduler.install(plane.node, plane.version, folder)
        await plane.place("first")
        yield plane


async def apply_certificates(plane: ControlPlane) -> None:
    """The Secrets of the stack, without data."""
    settings = Extender(certificates_image="example.com/cli:1")
    objects = certificates.objects(settings, KubernetesVersion(1, 36))
    await plane.bed.kubectl("apply", "--server-side", "-f", "-", stdin=as_yaml(objects))


async def start_extender(plane: ControlPlane) -> None:
    """With the certificate from its Secret, as the kubelet mounts it."""
    data = (await plane.bed.api.get(f"{SECRETS}/{EXTENDER_TLS_SECRET}"))["data"]
    for key, text in data.items():
        (plane.folder / key).write_bytes(base64.b64decode(text))
    address = plane.node.address
    files = {"tls-cert": "tls.crt", "tls-key": "tls.key", "client-ca": "ca.crt"}
    secured = [f"--{flag}={plane.folder}/{name}" for flag, name in files.items()]
    spec = ExtenderSpec(
        port=EXTENDER_NODE_PORT, flags=(f"--host={address}", f"--ops-host={address}", *secured)
    )
    argv = spec.argv(plane.bed.kubeconfig_for(ACCOUNT))
    await plane.node.spawn("extender", argv, ready=f"http://{address}:{spec.ops_port}/readyz")


@pytest.mark.parametrize("plane", TOOLS, indirect=True)
async def test_the_role_fetches_the_certificate_and_the_scheduler_binds_over_mutual_tls(
    plane: ControlPlane,
) -> None:
    wanted = {"client_secret": CLIENT_TLS_SECRET, "cluster_kubeconfig": str(plane.bed.kubeconfig)}
    absent = await plane.run(**wanted)
    assert absent.code != 0
    assert f"there is no Secret kube-system/{CLIENT_TLS_SECRET}, so nothing was changed" in absent.text

    await apply_certificates(plane)
    empty = await plane.run(**wanted)
    assert (
        f"Secret kube-system/{CLIENT_TLS_SECRET} has no certificate yet, so nothing was changed" in empty.text
    )
    assert (empty.changed, plane.text()) == ({"cp": 0}, original(plane))

    command = [sys.executable, "-m", "gpushare", "certificates", f"--kubeconfig={plane.bed.kubeconfig}"]
    await run_text(command, timeout_s=60)
    await start_extender(plane)
    first = await plane.run(**wanted)
    assert first.code == 0, first.output
    assert await plane.scheduler_runs(ours=True)
    assert ANN_IDX in (await plane.place("shared"))["metadata"]["annotations"]
    key = plane.node.path(f"{TLS_FOLDER}/tls.key")
    assert key.stat().st_mode & 0o777 == 0o600
    assert key.read_text() not in first.output
    again = await plane.run(**wanted)
    assert (again.code, again.changed) == (0, {"cp": 0}), again.output

    manifest = plane.text()
    await run_text([*command, "--renew"], timeout_s=60)
    renewed = await plane.run(**wanted)
    assert (renewed.code, renewed.changed) == (0, {"cp": 1}), renewed.output
    assert plane.text() == manifest
