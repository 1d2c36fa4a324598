"""The rendered manifests on the real API server, with exactly the permissions that they grant.

The resources of the Prometheus Operator have its own definitions; the operator itself does not run.
"""

import asyncio
import re
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
import yaml

from devkit.ports import free_ports
from gpushare.contract import ANN_IDX
from gpushare.errors import ApiError
from testbed import Bed, DevkitError, SchedulerSpec, SimGpu, SimNode, Testbed, gpu_pod, until
from testbed.control_plane.api import Object, read_text
from testbed.daemons.extender import ExtenderSpec, start_extender
from testbed.programs import build
from testbed.programs.binaries import OPERATOR_CRDS
from tests.support.builders.stacks import EXAMPLES, STACKS
from tests.support.fixtures.gpu_nodes import bound
from tests.support.fixtures.sidecars import apply, grant, issue, rendered, scheduler_argv
from tests.support.fixtures.simulated import clear

OLD_LABEL = "key: node-role.kubernetes.io/master is use"
SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
pytestmark = [pytest.mark.kubernetes, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bed() -> AsyncIterator[Bed]:
    async with Testbed(kwok=False, scheduler=SchedulerSpec(None)) as made:
        crds = await build.ensure_files(OPERATOR_CRDS)
        await made.kubectl(
            "apply", "--server-side", *(f"--filename={crds / name}" for name in OPERATOR_CRDS.files)
        )
        # `kubectl wait` fails for an object that has no status yet.
        await until(lambda: _established(made), "the definitions of the operator", 60)
        yield made


async def _established(bed: Bed) -> bool:
    crds = await bed.api.items("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
    conditions = [each.get("status", {}).get("conditions") or () for each in crds]
    return all(any(c["type"] == "Established" and c["status"] == "True" for c in each) for each in conditions)


def documents(file: Path) -> list[Object]:
    return list(yaml.safe_load_all(file.read_text()))


async def with_namespaces(bed: Bed, name: str) -> list[Object]:
    """All objects of a stack; its namespaces are created, because a dry run of other objects needs them."""
    objects = rendered(name)
    for each in objects:
        if each["kind"] == "Namespace":
            await apply(bed, [each])
    return objects


@pytest.mark.parametrize("name", STACKS)
async def test_the_api_server_accepts_every_object(bed: Bed, name: str) -> None:
    objects = await with_namespaces(bed, name)
    answer = await apply(bed, objects, "--dry-run=server")
    assert len(answer.splitlines()) == len(objects)


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
async def test_the_api_server_accepts_the_manifests_of_the_ack_documentation(bed: Bed, file: Path) -> None:
    objects = documents(file)
    answer = await apply(bed, objects, "--dry-run=server")
    assert len(answer.splitlines()) == len(objects)


@pytest.mark.parametrize("name", [each for each in STACKS if each != "installer"])
async def test_the_api_server_warns_of_nothing(bed: Bed, name: str) -> None:
    await apply(bed, await with_namespaces(bed, name), "--dry-run=server", "--warnings-as-errors")


async def test_the_only_warning_of_a_stack_for_1_22_is_for_the_label_of_its_control_planes(bed: Bed) -> None:
    objects = await with_namespaces(bed, "installer")
    with pytest.raises(DevkitError) as error:
        await apply(bed, objects, "--dry-run=server", "--warnings-as-errors")
    lines = str(error.value).splitlines()
    (last,) = [line for line in lines if "Warning:" not in line or OLD_LABEL not in line]
    assert re.fullmatch(r"error: \d+ warnings? received", last)


async def test_the_validation_finds_an_unknown_field(bed: Bed) -> None:
    deployment, *_ = [each for each in rendered("example") if each["kind"] == "Deployment"]
    deployment["spec"]["template"]["spec"]["hostNetworks"] = True
    with pytest.raises(DevkitError, match="hostNetworks"):
        await apply(bed, [deployment], "--dry-run=server")


async def test_a_quota_limits_gpu_pods_only(bed: Bed) -> None:
    await apply(bed, [each for each in rendered("example") if each["kind"] in ("Namespace", "ResourceQuota")])
    await bed.until_service_account("team-a")

    async def enforced() -> bool:
        try:
            path = "/api/v1/namespaces/team-a/pods"
            await bed.api.request(
                "POST", path, gpu_pod("probe", 33, namespace="team-a"), params={"dryRun": "All"}
            )
        except ApiError as error:
            return "exceeded quota" in str(error)
        return False

    await until(enforced, "the API server to enforce the quota")
    await bed.create_pods([gpu_pod("fits", 32, namespace="team-a"), gpu_pod("plain", namespace="team-a")])
    with pytest.raises(ApiError, match=r"exceeded quota.*aliyun.com/gpu-mem"):
        await bed.create_pods([gpu_pod("beyond", 1, namespace="team-a")])


async def leads_with_all_rights(ops_url: str) -> None:
    async def leads() -> bool:
        return "gpushare_extender_leader 1.0" in await read_text(f"{ops_url}/metrics")

    await until(leads, "the extender to hold the Lease", 60)
    lines = (await read_text(f"{ops_url}/metrics")).splitlines()
    modes = [line for line in lines if line.startswith("gpushare_extender_degraded_mode{")]
    missing = [line for line in modes if 'right="tls"' not in line]
    assert missing
    assert [line for line in missing if not line.endswith(" 0.0")] == []


async def test_the_extender_is_ready_with_the_deployed_permissions_and_misses_none(bed: Bed) -> None:
    await grant(bed, "example")
    spec = ExtenderSpec()
    process = await start_extender(bed, spec)
    await leads_with_all_rights(spec.ops_url)
    await bed.api.get("/api/v1/namespaces/kube-system/secrets/gpushare-schd-extender-seal")
    await process.stop()


CONFINE = f"""
mount -t tmpfs none /run && mkdir -p {SERVICE_ACCOUNT} && mount --bind "$1" {SERVICE_ACCOUNT} || exit 1
mount -o remount,bind,ro /run && mount -o remount,bind,ro / || exit 1
if touch /probe; then exit 1; fi
shift
exec setpriv --bounding-set=-all --inh-caps=-all --no-new-privs "$@"
"""
"""The effects of kubelet and security context: files of the account, read-only root, no capabilities."""


@pytest.mark.needs("root", "unshare")
async def test_the_deployed_command_runs_on_a_read_only_root_with_the_accounts_token(bed: Bed) -> None:
    (container,) = await grant(bed, "node-port")
    files = bed.folder / "account"
    files.mkdir()
    token = await bed.kubectl("create", "token", "gpushare-schd-extender", "--namespace=kube-system")
    for name, text in {"token": token.strip(), "ca.crt": bed.ca_file.read_text()}.items():
        (files / name).write_text(text)
    host, _, api_port = bed.api_url.removeprefix("https://").partition(":")
    ports = free_ports(2)
    given = {"POD_NAME": "extender-0", "POD_IP": host, "PORT": str(ports[0]), "OPS_PORT": str(ports[1])}
    env = {each["name"]: given.get(each["name"], each.get("value", "")) for each in container["env"]}
    certificates = bed.folder / "tls"
    certificates.mkdir()
    issue(certificates)
    flags = [each.replace("/etc/gpushare/tls", str(certificates)) for each in container["command"][1:]]
    command = [str(Path(sys.executable).with_name("gpushare")), *flags]
    unshare = shutil.which("unshare")
    assert unshare
    process = await bed.spawn(
        "confined",
        [unshare, "--mount", "sh", "-c", CONFINE, "sh", str(files), *command],
        env={**env, "KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": api_port},
        ready=f"http://127.0.0.1:{ports[1]}/readyz",
    )
    await leads_with_all_rights(f"http://127.0.0.1:{ports[1]}")
    await process.stop()


async def test_a_sidecar_scheduler_binds_with_the_extender_and_the_deployed_permissions(
    bed: Bed, tmp_path: Path
) -> None:
    _, scheduler = await grant(bed, "sidecar")
    spec = ExtenderSpec()
    extender = await start_extender(bed, spec)
    tool = (await build.ensure(["kube-scheduler"]))["kube-scheduler"]
    argv = scheduler_argv(bed, scheduler["command"], spec.url, tmp_path / "config.yaml")
    process = await bed.spawn("own-scheduler", [str(tool.path), *argv[1:]])
    await bed.add_nodes([SimNode("n", [SimGpu()])])
    await bed.create_pods([gpu_pod("p", 4, schedulerName="gpushare-scheduler")])
    assert ANN_IDX in (await bound(bed, "p", 60))["metadata"]["annotations"]
    assert "forbidden" not in process.command.log.read_text().lower()
    await asyncio.gather(process.stop(), extender.stop())
    await clear(bed)


LABELLED = {
    "shared": {"gpushare": "true"},
    "isolated": {"cgpu": "true"},
    "of-a-mode": {"ack.node.gpu.schedule": "default"},
    "of-a-model": {"aliyun.accelerator/nvidia_name": "Tesla-V100-SXM2-16GB"},
    "by-gfd": {"nvidia.com/gpu.present": "true"},
    "by-nfd-of-the-operator": {"feature.node.kubernetes.io/pci-10de.present": "true"},
    "by-nfd-vga": {"feature.node.kubernetes.io/pci-0300_10de.present": "true"},
    "by-nfd-3d": {"feature.node.kubernetes.io/pci-0302_10de.present": "true"},
}
OTHERS = {
    "plain": {},
    "not-shared": {"gpushare": "false", "cgpu": "false"},
    "gpu-taken-out": {"nvidia.com/gpu.present": "false"},
    "of-another-vendor": {"feature.node.kubernetes.io/pci-0300_1002.present": "true"},
}
"""Labels of nodes by the node's name: those that get an exporter by default, and those that get none."""


def node_of(pod: Object) -> str:
    """The node for which the controller of the DaemonSet created a pod."""
    affinity = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (name,) = {each["matchFields"][0]["values"][0] for each in affinity["nodeSelectorTerms"]}
    return str(name)


async def test_every_node_on_which_a_discovery_found_gpus_gets_an_exporter_by_default(bed: Bed) -> None:
    names = await exporters(bed)
    assert sorted(names) == sorted(LABELLED)


async def exporters(bed: Bed) -> list[str]:
    """Apply the example's exporter, and return the nodes for which it gets pods."""
    await bed.add_nodes([SimNode(name, labels=each) for name, each in {**LABELLED, **OTHERS}.items()])
    await apply(bed, [each for each in rendered("example") if "exporter" in each["metadata"]["name"]])
    path = "/apis/apps/v1/namespaces/kube-system/daemonsets/gpushare-exporter"

    async def settled() -> bool:
        status = (await bed.api.get(path))["status"]
        wanted = status.get("desiredNumberScheduled")
        return bool(status.get("observedGeneration")) and wanted == status["currentNumberScheduled"]

    await until(settled, "the DaemonSet's controller to have made all pods")
    pods = await bed.api.items(
        "/api/v1/namespaces/kube-system/pods", labelSelector="component=gpushare-exporter"
    )
    return [node_of(each) for each in pods]
