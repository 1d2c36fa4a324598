"""The images of the services, built here, on a real containerd with the limits of our manifests."""

import json
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import httpx2
import pytest
import pytest_asyncio

import release
from components.config import Isolation, Presence
from components.manifests import isolation
from components.manifests.parts import NON_ROOT, container_security, non_root_security
from components.render import as_yaml
from devkit.ports import free_ports
from gpushare.contract import ISOLATION_INSTALLER_NAME, ISOLATION_LIBRARIES
from gpushare.isolation.layout import LIBRARY, PRELOAD_FILE
from gpushare.isolation.versions import current_version, installed_versions
from gpushare.kubescheduler.config import KubernetesVersion
from release import Images, Order, build, contents
from testbed import Bed, Testbed, until
from testbed.control_plane.api import Object, read_text
from testbed.control_plane.pki import Authority
from testbed.kubelets import KubeletNode, KubeletSpec, add_kubelet
from testbed.kubelets.services import load
from testbed.programs.debian import program
from tests.support import inside_image

pytestmark = [
    pytest.mark.needs("images", "kubelet"),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(1200),
]

PODS = "/api/v1/namespaces/default/pods"
VERSION = KubernetesVersion(1, 36)
LOOK = Path(inside_image.__file__)
ORIGINAL = ["gpushare-device-plugin-v2", "-logtostderr", "--v=9", "--memory-unit=GiB"]
NODE_ADAPTERS = [f"gpushare.adapters.{name}" for name in ("kube", "kubelet", "nvml")]
SERVICES: dict[str, dict[str, Any]] = {
    "extender": {
        "packages": ["gpushare.extender", "gpushare.runtime", "gpushare.adapters.kube"],
        "absent": ["grpc", "google.protobuf", "pynvml", "cryptography"],
        "commands": [
            ["gpushare", "version"],
            ["gpushare", "extender", "--help"],
            ["gpushare", "scheduler-name", "--help"],
        ],
    },
    "device-plugin": {
        "packages": ["gpushare.deviceplugin", "gpushare.mps", *NODE_ADAPTERS, "gpushare.runtime"],
        "absent": ["cryptography"],
        "commands": [
            ["gpushare", "version"],
            ["gpushare-device-plugin-v2", "--help"],
            ORIGINAL,
            ["gpushare", "mps", "--help"],
        ],
    },
    "exporter": {
        "packages": ["gpushare.exporter", *NODE_ADAPTERS, "gpushare.runtime"],
        "absent": ["uvloop", "immutables"],
        "commands": [["gpushare", "version"], ["gpushare", "exporter", "--help"]],
    },
    "isolation": {
        "packages": ["gpushare.isolation", "gpushare.runtime"],
        "absent": ["aiohttp", "grpc", "google.protobuf", "pynvml", "immutables", "yaml"],
        "commands": [["gpushare", "version"], ["gpushare", "isolation", "install", "--help"]],
    },
    "metrics-api": {
        "packages": ["gpushare.metricsapi", "gpushare.adapters.kube", "gpushare.runtime"],
        "absent": ["grpc", "google.protobuf", "pynvml", "immutables"],
        "commands": [["gpushare", "version"], ["gpushare", "metrics-api", "--help"]],
    },
    "cli": {
        "packages": ["gpushare.cli", "gpushare.board", "gpushare.overview"],
        "absent": ["grpc", "google.protobuf", "pynvml", "httptools", "prometheus_client"],
        "commands": [
            ["gpushare", "version"],
            ["kubectl-inspect-gpushare-v2", "--help"],
            ["kubectl-inspect-gpushare", "--help"],
            ["kubectl-gpushare", "--help"],
            ["gpushare", "certificates", "--help"],
        ],
    },
    "samples": {
        "packages": ["samples"],
        "absent": ["gpushare", "grpc", "pynvml", "kubernetes", "yaml"],
        "commands": [
            ["inference_server", "--help"],
            ["sh", "-c", "command -v cuda_malloc && command -v nvidia-smi"],
        ],
    },
}
ROOT_SERVICES = ("device-plugin", "exporter", "isolation")
"""Services that use files of the node."""
NOWHERE = [
    "components",
    "devkit",
    "hatchling",
    "hypothesis",
    "kubernetes",
    "pip",
    "pulumi",
    "pydantic",
    "pytest",
    "requests",
    "testbed",
    "uv",
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bed() -> AsyncIterator[Bed]:
    async with Testbed(kwok=False) as bed:
        yield bed


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def built() -> Images:
    return await release.ensure()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(bed: Bed, built: Images) -> KubeletNode:
    node = await add_kubelet(bed, KubeletSpec("gpu-a"))
    await load(node, built)
    return node


def pod(node: KubeletNode, service: str, image: str) -> Object:
    """As our manifests: no capabilities; only services that use files of the node run as root."""
    asked = SERVICES[service] | {"absent": [*SERVICES[service]["absent"], *NOWHERE]}
    whole = {"runAsUser": 0} if service in ROOT_SERVICES else non_root_security(VERSION)
    return {
        "metadata": {"name": service},
        "spec": {
            "nodeName": node.name,
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "securityContext": whole,
            "containers": [
                {
                    "name": "main",
                    "image": image,
                    "imagePullPolicy": "IfNotPresent",
                    "command": ["python3", "-c", LOOK.read_text(), json.dumps(asked)],
                    "securityContext": container_security(),
                }
            ],
        },
    }


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def reports(bed: Bed, node: KubeletNode, built: Images) -> dict[str, Any]:
    """The results of the inspection inside each container."""
    await bed.create_pods([pod(node, service, built.references[service]) for service in SERVICES])
    return {service: await report(bed, service) for service in SERVICES}


async def report(bed: Bed, name: str) -> dict[str, Any]:
    async def over() -> Object | None:
        found = await bed.api.get(f"{PODS}/{name}")
        return found if found["status"].get("phase") in {"Succeeded", "Failed"} else None

    found = await until(over, f"pod {name} to end", 60)
    log = await read_text(f"{bed.api.url}{PODS}/{name}/log", bed.credentials.context(), timeout_s=10)
    assert found is not None
    assert found["status"]["phase"] == "Succeeded", log
    answer: dict[str, Any] = json.loads(log)
    return answer


@pytest.fixture(params=SERVICES)
def service(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


async def test_every_image_of_the_containerfile_is_built(built: Images) -> None:
    assert set(built.references) == set(SERVICES)


async def test_commands_answer(reports: dict[str, Any], service: str) -> None:
    for command, (status, output) in zip(
        SERVICES[service]["commands"], reports[service]["commands"], strict=True
    ):
        if command == ORIGINAL:
            # The flags are accepted; the environment variables of the manifest are missing.
            assert status != 0
            assert "NODE_NAME is not set" in output
        else:
            assert status == 0, output
            assert "gpushare" in output.lower() or "/opt/samples/" in output


async def test_an_image_has_all_that_its_service_imports(reports: dict[str, Any], service: str) -> None:
    assert reports[service]["failed_imports"] == {}


async def test_unused_packages_are_not_in_the_image(reports: dict[str, Any], service: str) -> None:
    assert reports[service]["present"] == []


async def test_a_service_runs_as_the_user_of_its_manifest(reports: dict[str, Any], service: str) -> None:
    assert reports[service]["user"] == (0 if service in ROOT_SERVICES else NON_ROOT)


async def test_a_service_has_no_capabilities_and_a_seccomp_filter(
    reports: dict[str, Any], service: str
) -> None:
    assert reports[service]["capabilities"] == 0
    if service not in ROOT_SERVICES:
        assert reports[service]["seccomp"] == "2"


async def test_a_service_cannot_write_to_its_image(reports: dict[str, Any], service: str) -> None:
    assert reports[service]["written"] == []


async def test_no_file_has_setuid_or_setgid_bits(reports: dict[str, Any], service: str) -> None:
    assert reports[service]["setuid"] == []


async def test_all_modules_have_unchecked_bytecode(reports: dict[str, Any], service: str) -> None:
    if service != "samples":
        assert reports[service]["modules"] > 300
    assert reports[service]["not_compiled"] == []


async def test_the_sbom_of_an_image_lists_what_is_installed_in_it(
    reports: dict[str, Any], built: Images, service: str
) -> None:
    found = contents.read(built.folder, built.references[service].rpartition("@")[2])
    inside = reports[service]
    assert sorted([each.name, each.version] for each in found.debian) == inside["debian"]
    assert {"libc6", "python3-minimal"} <= {each.name for each in found.debian}
    listed = [[each.name, each.version] for each in found.distributions]
    assert not [each for each in inside["distributions"] if each not in listed]
    assert found.libraries == inside["libraries"]
    assert bool(found.libraries) == (service in ("isolation", "extender", "cli"))


async def test_an_image_says_how_old_its_packages_are(built: Images, service: str) -> None:
    labels = contents.read(built.folder, built.references[service].rpartition("@")[2]).labels
    assert date.fromisoformat(labels[build.BASE_DAY]) <= datetime.now(UTC).date()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def placed(bed: Bed, node: KubeletNode, built: Images) -> str:
    """The version that the installer has installed, started as in its manifest."""
    await install(bed, node, built, Presence.PRESENT)
    return await until(lambda: version_on(node), "the library on the node", 60)


async def install(bed: Bed, node: KubeletNode, built: Images, state: Presence) -> None:
    own = (f"kubernetes.io/hostname={node.name}",)
    settings = Isolation(built.references["isolation"], own, state)
    await bed.apply(as_yaml(isolation.objects(settings)))


async def version_on(node: KubeletNode) -> str:
    return current_version(node.path(ISOLATION_LIBRARIES)) or ""


async def installers(bed: Bed) -> list[Object]:
    return await bed.api.items(
        "/api/v1/namespaces/kube-system/pods", labelSelector=f"component={ISOLATION_INSTALLER_NAME}"
    )


async def is_ready(bed: Bed, command: str) -> bool:
    return [
        (each["spec"]["containers"][0]["command"][2], status["ready"])
        for each in await installers(bed)
        for status in each["status"].get("containerStatuses", ())
    ] == [(command, True)]


async def test_programs_of_the_node_start_with_the_installed_library(
    bed: Bed, node: KubeletNode, placed: str
) -> None:
    await until(lambda: is_ready(bed, "install"), "the installer to be ready", 60)
    folder = f"{ISOLATION_LIBRARIES}/{placed}"
    modes = await node.run_text(["stat", "-c", "%n %a %U", f"{folder}/{LIBRARY}", f"{folder}/{PRELOAD_FILE}"])
    assert modes.splitlines() == [
        f"{folder}/{LIBRARY} 755 root",
        f"{folder}/{PRELOAD_FILE} 644 root",
    ]
    shown = await node.run_text(["env", f"LD_PRELOAD={folder}/{LIBRARY}", "cat", "/proc/self/maps"])
    assert LIBRARY in shown


async def test_without_its_daemonset_the_library_stays_for_running_containers(
    bed: Bed, node: KubeletNode, placed: str
) -> None:
    await bed.kubectl("delete", "daemonset", ISOLATION_INSTALLER_NAME, "--namespace=kube-system")

    async def gone() -> bool:
        return not await installers(bed)

    await until(gone, "the installer to go", 60)
    assert await version_on(node) == placed


async def test_absent_removes_the_link_and_keeps_versions_that_containers_may_use(
    bed: Bed, node: KubeletNode, built: Images, placed: str
) -> None:
    await install(bed, node, built, Presence.ABSENT)

    async def gone() -> bool:
        return not await version_on(node)

    await until(gone, "the link to go", 90)
    await until(lambda: is_ready(bed, "uninstall"), "the installer to be ready", 60)
    assert installed_versions(node.path(ISOLATION_LIBRARIES)) == (placed,)


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A real registry with TLS, and its CA certificate."""
    server = str(program("docker-registry"))
    authority = Authority.create("registry-ca")
    authority.pair().write(tmp_path, "ca")
    authority.server("registry", ["127.0.0.1"]).write(tmp_path, "server")
    [port] = free_ports(1)
    config = {
        "version": 0.1,
        "log": {"level": "error"},
        "storage": {"filesystem": {"rootdirectory": str(tmp_path / "data")}},
        "http": {
            "addr": f"127.0.0.1:{port}",
            "tls": {"certificate": str(tmp_path / "server.crt"), "key": str(tmp_path / "server.key")},
        },
    }
    (tmp_path / "config.yml").write_text(json.dumps(config))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    argv = [server, "serve", str(tmp_path / "config.yml")]
    process = subprocess.Popen(argv, stderr=sys.stderr)  # noqa: S603 - found on PATH
    yield f"127.0.0.1:{port}"
    process.terminate()
    process.wait(10)


@pytest.mark.needs("registry")
async def test_the_pushed_images_have_the_recorded_digests(
    registry: str, built: Images, tmp_path: Path
) -> None:
    trust = ssl.create_default_context(cafile=tmp_path / "ca.crt")

    async def answers() -> bool:
        try:
            with httpx2.Client(verify=trust) as client:
                return bool(client.get(f"https://{registry}/v2/").status_code == 200)
        except httpx2.TransportError:
            return False

    await until(answers, "the registry to answer")
    pushed = await build.push(Order(f"{registry}/gpushare"))
    wanted = {name: reference.rpartition("@")[2] for name, reference in pushed.references.items()}
    with httpx2.Client(verify=trust) as client:
        for name, digest in wanted.items():
            url = f"https://{registry}/v2/gpushare/{name}/manifests/{digest}"
            answer = client.head(url, headers={"Accept": "application/vnd.oci.image.manifest.v1+json"})
            assert (answer.status_code, answer.headers["Docker-Content-Digest"]) == (200, digest)
    assert set(wanted) == set(built.references)
