"""Memory limits of containers on one node: kubelet, containerd and NVIDIA's runtime.

The GPU is a stub of NVML and of the CUDA driver; the programs are real and do not handle limits.
"""

import shutil
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from gpushare import contract
from gpushare.isolation import layout, region
from testbed import Bed, DevkitError, until
from testbed.control_plane.api import Object
from testbed.daemons.agent import GpuNode, start_agent
from testbed.daemons.exporter import grant_exporter, start_exporter
from testbed.kubelets import needs
from testbed.nvml import GpuProcess
from testbed.stories import manifest
from tests.support.builders import cuda_image, program_image
from tests.support.fixtures import userlands
from tests.support.fixtures.enforced_nodes import (
    IMAGE,
    add_enforced_node,
    container_directory,
    counted,
    region_of,
)
from tests.support.fixtures.gpu_nodes import (
    PODS,
    clear,
    container,
    node_object,
    pod,
    remove,
    replicas_run,
    running,
    until_event,
    until_registered,
)
from tests.support.fixtures.isolation import MIB, needs_compiler
from tests.support.recount import pid_of

pytestmark = [pytest.mark.needs("kubelet"), pytest.mark.asyncio(loop_scope="module"), needs_compiler]

CONTEXT_MIB = 121
WITH_PRELOAD = "docker.io/testbed/cuda-with-preload:1"
OLD_IMAGE = "docker.io/testbed/cuda-bullseye:1"
STRANGE_IMAGE = "docker.io/testbed/strangers:1"
S2_IMAGE = "docker.io/tensorflow-samples/cuda-malloc"
REFUSED = (
    "CUDA error at cgpu_cuda_malloc.cu:119 code=2(cudaErrorMemoryAllocation) "
    '"cudaMalloc( (void**)&dev_c, malloc_size)"'
)


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The images: two of the ACK documentation, one without a command, and one with an ld.so.preload file."""
    folder = tmp_path_factory.mktemp("images")
    own = folder / "ld.so.preload"
    own.write_text("/lib/own.so\n")
    programs = cuda_image.programs(folder)
    setuid = programs["setuid_malloc"] = folder / "setuid_malloc"
    shutil.copy(programs["cuda_malloc"], setuid)
    setuid.chmod(0o4755)
    images: list[tuple[str, list[str], dict[str, Path]]] = [
        (f"{S2_IMAGE}:3G", ["cuda_malloc", "-size=3072", "-hold"], {}),
        (f"{S2_IMAGE}:6G", ["cuda_malloc", "-size=6144", "-hold"], {}),
        (IMAGE, [], {}),
        (WITH_PRELOAD, [], {contract.PRELOAD: own}),
    ]
    for number, (name, command, more) in enumerate(images):
        cuda_image.save(folder / f"{number}.tar", name, programs, needs.look().busybox, command, **more)
    return sorted(folder.glob("*.tar"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(bed: Bed, package: Path, archives: list[Path]) -> GpuNode:
    """The node of the ACK documentation: one V100 of 16130 MiB, 15 units, with the label of that page."""
    label = (contract.LABEL_CGPU, "true")
    found, _ = await add_enforced_node(bed, label, package, archives, context_mib=CONTEXT_MIB)
    return await start_agent(found)


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def nothing_left(bed: Bed, node: GpuNode) -> AsyncIterator[None]:
    yield
    await clear(bed, node)
    await until(lambda: are_gone(node, places(node)), "all places to be gone")


def places(node: GpuNode) -> set[str]:
    """The contents of the state directory: container directories, and links to them."""
    return {path.name for path in node.kubelet.path(contract.ISOLATION_STATE).iterdir()}


async def are_gone(node: GpuNode, names: set[str]) -> bool:
    return not names & places(node)


# --- pods, and their state ----------------------------------------------------------------------


def cuda(script: str = "sleep infinity", *, units: int = 4, image: str = IMAGE, **more: Any) -> Object:
    """A container with the programs; its shell is static, so the library is not loaded into it."""
    return container(units, image=image, script=f"trap exit TERM; {script} & wait $!", **more)


async def start(bed: Bed, name: str, main: Object, **spec: Any) -> Object:
    await bed.create_pods([pod(name, main, **spec)])
    return await running(bed, name, 60)


async def inside(bed: Bed, name: str, command: str) -> str:
    """The output of a command in a container; the last line is its exit code."""
    return await bed.kubectl("exec", name, "--", "sh", "-c", f"({command}) 2>&1; echo $?")


async def logs(bed: Bed, name: str) -> str:
    return await bed.kubectl("logs", name)


def real_place(node: GpuNode, found: Object) -> Path:
    """The container directory; ``resolve`` would follow the link out of the root of the node."""
    link = container_directory(node, found)
    return link.parent / link.readlink()


def seen(node: GpuNode, found: Object) -> region.CardUse:
    """The usage of the GPU in the container's region."""
    return region_of(node, found).cards[0]


async def until_counted(node: GpuNode, found: Object, mib: int) -> None:
    """Wait until the library has counted that much memory for the container."""

    async def reached() -> bool:
        return counted(node, found) == mib * MIB

    await until(reached, f"{mib} MiB to be counted for {found['metadata']['name']}", 60)


async def end(bed: Bed, name: str) -> None:
    """End a container from inside; the command may end with it."""
    with suppress(DevkitError):
        await bed.kubectl("exec", name, "--", "sh", "-c", "kill 1")
    await running(bed, name, 60, restarts=1)


async def restarts(bed: Bed, name: str) -> int:
    status = (await bed.api.get(f"{PODS}/{name}"))["status"]
    return int(status["containerStatuses"][0]["restartCount"])


def short_lived(workload: Object) -> Object:
    """The workload with pods that end at once."""
    workload["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 0
    return workload


async def two_of_s2(bed: Bed, node: GpuNode) -> list[Object]:
    """The StatefulSet of the ACK documentation: two pods of 4 units that use 3072 MiB each."""
    await bed.apply(yaml.safe_dump(short_lived(yaml.safe_load(manifest("app-3g-v1")))))
    found = await replicas_run(bed, "app-3g-v1", 2)
    for each in found:
        await until_counted(node, each, 3072 + CONTEXT_MIB)
    return found


# --- S2 -----------------------------------------------------------------------------------------


@pytest.mark.short
async def test_two_applications_of_3_gib_run_on_one_gpu_and_each_sees_its_own_limit(
    bed: Bed, node: GpuNode
) -> None:
    for each in await two_of_s2(bed, node):
        name = each["metadata"]["name"]
        assert await inside(bed, name, "nvml_memory") == "3193MiB / 4301MiB\n0\n"
        assert "  Total amount of global memory:                 4301 MBytes (4509925376 bytes)" in (
            await logs(bed, name)
        )
        assert seen(node, each).limit == 4509925376


@pytest.mark.short
async def test_more_than_the_limit_is_refused_with_the_code_of_the_ack_documentation(
    bed: Bed, node: GpuNode
) -> None:
    first, second = await two_of_s2(bed, node)
    shown = (await inside(bed, second["metadata"]["name"], "cuda_malloc -size=1024")).splitlines()
    assert shown == [
        "gpu_cuda_malloc starting...",
        "Detected 1 CUDA Capable device(s)",
        "",
        'Device 0: "Tesla V100-SXM2-16GB"',
        "  CUDA Driver Version / Runtime Version          10.1 / 10.1",
        "  Total amount of global memory:                 4301 MBytes (4509925376 bytes)",
        "Try to malloc 1024 MBytes memory on GPU 0",
        REFUSED,
        "1",
    ]
    assert (seen(node, second).refusals, seen(node, first).refusals) == (1, 0)


@pytest.mark.short
async def test_an_application_of_6_gib_crashes_without_effect_on_its_neighbours(
    bed: Bed, node: GpuNode
) -> None:
    neighbours = await two_of_s2(bed, node)
    before = [seen(node, each) for each in neighbours]
    text = manifest("app-3g-v1").replace("app-3g-v1", "app-6g-v1").replace(":3G", ":6G")
    greedy = short_lived(yaml.safe_load(text))
    greedy["spec"]["replicas"] = 1
    await bed.apply(yaml.safe_dump(greedy))

    async def crashing() -> bool:
        found = await bed.api.get(f"{PODS}/app-6g-v1-0")
        statuses = found["status"].get("containerStatuses", ())
        return any(each["state"].get("waiting", {}).get("reason") == "CrashLoopBackOff" for each in statuses)

    await until(crashing, "app-6g-v1-0 to be in CrashLoopBackOff", 60)
    assert REFUSED in await logs(bed, "app-6g-v1-0")
    assert [seen(node, each) for each in neighbours] == before
    assert [await restarts(bed, each["metadata"]["name"]) for each in neighbours] == [0, 0]


# --- limited programs ---------------------------------------------------------------------------


@pytest.mark.short
async def test_a_pod_cannot_disable_isolation(bed: Bed) -> None:
    tries = {
        contract.ENV_NO_ISOLATION: "true",
        contract.ENV_CONTAINER: "15",
        "LD_PRELOAD": "",
        "GPUSHARE_LIMIT": "16130",
    }
    env = [{"name": name, "value": value} for name, value in tries.items()]
    await start(bed, "tries", cuda(env=env))
    assert await inside(bed, "tries", "cuda_malloc -size=5000 | tail -n 1") == f"{REFUSED}\n0\n"
    for path in (contract.PRELOAD, f"{contract.ISOLATION_INSIDE}/limit"):
        assert "Read-only file system" in await inside(bed, "tries", f"echo >{path}")


async def test_the_label_of_the_node_disables_isolation_for_later_containers(bed: Bed, node: GpuNode) -> None:
    held = await start(bed, "held", cuda(units=1))
    try:
        await label(bed, node, "true")
        await start(bed, "free", cuda(units=1))
        assert await inside(bed, "free", "echo $CGPU_DISABLE; ls /etc/ld.so.preload") == (
            "true\nls: /etc/ld.so.preload: No such file or directory\n1\n"
        )
        assert REFUSED not in await inside(bed, "free", "cuda_malloc -size=3000")
        assert REFUSED in await inside(bed, "held", "cuda_malloc -size=3000")
        assert seen(node, held).refusals == 1
    finally:
        await label(bed, node, None)


async def label(bed: Bed, node: GpuNode, value: str | None) -> None:
    """Set the label; the agent sees it before it sees a pod that is created later."""
    labels = {contract.LABEL_NO_ISOLATION: value}
    await bed.api.patch(f"/api/v1/nodes/{node.name}", {"metadata": {"labels": labels}})


@pytest.mark.short
async def test_without_a_library_pods_wait_with_the_reason_until_it_is_there(bed: Bed, node: GpuNode) -> None:
    link = node.kubelet.path(contract.ISOLATION_LIBRARIES) / layout.CURRENT
    version = link.readlink()
    link.unlink()
    try:
        await until(lambda: is_closed(node), "the node to be closed")
        await bed.create_pods([pod("unheld", cuda())])
        text = await until_event(bed, "unheld", lambda text: "has no isolation library" in text)
    finally:
        link.symlink_to(version)
    assert f"node {node.name} limits containers to their units" in text
    assert f"{contract.LABEL_NO_ISOLATION}=true" in text
    await running(bed, "unheld", 60)
    assert not await is_closed(node)


async def is_closed(node: GpuNode) -> bool:
    return contract.ANN_CLOSED in (await node_object(node))["metadata"]["annotations"]


# --- images and users ---------------------------------------------------------------------------


async def test_a_read_only_root_filesystem_works(bed: Bed) -> None:
    await start(bed, "sealed", cuda(securityContext={"readOnlyRootFilesystem": True}))
    assert REFUSED in await inside(bed, "sealed", "cuda_malloc -size=5000")


async def test_an_images_own_preloads_are_hidden(bed: Bed) -> None:
    await start(bed, "own", cuda(image=WITH_PRELOAD))
    assert await inside(bed, "own", "cat /etc/ld.so.preload") == "/.gpushare/libgpushare.so\n0\n"
    assert REFUSED in await inside(bed, "own", "cuda_malloc -size=5000")


@pytest.mark.short
async def test_unprivileged_users_and_setuid_programs_are_limited(bed: Bed, node: GpuNode) -> None:
    found = await start(bed, "guest", cuda(securityContext={"runAsUser": 65534, "runAsGroup": 65534}))
    assert REFUSED in await inside(bed, "guest", "cuda_malloc -size=5000")
    assert REFUSED in await inside(bed, "guest", "setuid_malloc -size=5000")
    assert seen(node, found).refusals == 2


async def load(node: GpuNode, folder: Path, image: str, files: dict[str, Path]) -> None:
    """Give the node an image of these files and a shell."""
    archive = folder / "image.tar"
    program_image.save(archive, image, {"bin/sh": needs.look().busybox, **files})
    await node.kubelet.load_images(archive)


async def test_programs_of_glibc_2_31_are_limited(bed: Bed, node: GpuNode, tmp_path: Path) -> None:
    root = await userlands.ensure(userlands.OLD_GLIBC)
    await load(node, tmp_path, OLD_IMAGE, userlands.glibc(root, "cuda_malloc", tmp_path / "cuda_malloc"))
    found = await start(bed, "old", cuda(image=OLD_IMAGE))
    assert REFUSED in await inside(bed, "old", "cuda_malloc -size=5000")
    assert REFUSED not in await inside(bed, "old", "cuda_malloc -size=4000")
    assert seen(node, found).refusals == 1
    assert seen(node, found).peak >= (4000 + CONTEXT_MIB) * MIB


async def test_programs_that_cannot_load_the_library_run_without_it(
    bed: Bed, node: GpuNode, tmp_path: Path
) -> None:
    root = await userlands.ensure(userlands.STRANGERS)
    programs = {**userlands.musl(root, tmp_path), **userlands.i386(root, tmp_path)}
    await load(node, tmp_path, STRANGE_IMAGE, programs)
    await start(bed, "strange", cuda(image=STRANGE_IMAGE))
    assert await inside(bed, "strange", "held_musl") == "free\n0\n"
    reported, *answers = (await inside(bed, "strange", "held_i386")).splitlines()
    assert reported.endswith("cannot be preloaded (wrong ELF class: ELFCLASS64): ignored.")
    assert answers == ["free", "0"]


# --- restarts -----------------------------------------------------------------------------------


async def test_a_restarted_container_has_its_limit_and_no_usage(bed: Bed, node: GpuNode) -> None:
    found = await start(bed, "again", cuda("cuda_malloc -size=4000 -hold"))
    await until_counted(node, found, 4000 + CONTEXT_MIB)
    where = real_place(node, found)
    await end(bed, "again")
    await until_counted(node, found, 4000 + CONTEXT_MIB)
    assert real_place(node, found) == where
    assert REFUSED in await inside(bed, "again", "cuda_malloc -size=1000")


async def test_restarts_of_kubelet_and_agent_leave_limit_and_region_alone(bed: Bed, node: GpuNode) -> None:
    found = await start(bed, "stays", cuda("cuda_malloc -size=3072 -hold"))
    await until_counted(node, found, 3072 + CONTEXT_MIB)
    before = files(node, found)
    await node.agent.restart()
    await until_registered(node)
    await node.kubelet.stop("kubelet")
    await node.kubelet.start("kubelet")
    await until_registered(node)
    await until(lambda: answers(bed, "stays"), "the kubelet to know its pods")
    assert files(node, found) == before
    assert seen(node, found).used == (3072 + CONTEXT_MIB) * MIB
    assert REFUSED in await inside(bed, "stays", "cuda_malloc -size=1024")
    assert await restarts(bed, "stays") == 0


async def answers(bed: Bed, name: str) -> bool:
    try:
        return bool(await inside(bed, name, "true"))
    except DevkitError:
        return False


def files(node: GpuNode, found: Object) -> list[int]:
    """The very files of a container."""
    return [(container_directory(node, found) / name).stat().st_ino for name in (layout.LIMIT, layout.REGION)]


async def test_the_files_of_a_pod_are_removed_with_it(bed: Bed, node: GpuNode) -> None:
    leaves = await start(bed, "leaves", cuda(units=1))
    stays = await start(bed, "stays", cuda(units=1))
    gone = {container_directory(node, leaves).name, real_place(node, leaves).name}
    assert gone < places(node)
    await remove(bed, "leaves")
    await until(lambda: are_gone(node, gone), "its place to be gone")
    assert (container_directory(node, stays) / layout.LIMIT).is_file()


@pytest.mark.short
async def test_without_its_files_a_container_gets_no_memory(bed: Bed, node: GpuNode) -> None:
    """The runtime creates directories for missing mount sources, and starts the container."""
    found = await start(bed, "lost", cuda())
    where = real_place(node, found)
    for name in (layout.LIMIT, layout.REGION):
        (where / name).unlink()
    await end(bed, "lost")
    assert REFUSED in await inside(bed, "lost", "cuda_malloc -size=1")
    assert (where / layout.LIMIT).is_dir()
    await node.agent.restart()
    await until_registered(node)
    assert (where / layout.LIMIT).is_file()


@pytest.mark.parametrize("missing", ["", layout.LIBRARY])
async def test_without_its_library_a_container_does_not_start(
    bed: Bed, node: GpuNode, tmp_path: Path, missing: str
) -> None:
    name = f"waits-{'file' if missing else 'version'}"
    await start(bed, name, cuda())
    libraries = node.kubelet.path(contract.ISOLATION_LIBRARIES)
    path = libraries / (libraries / layout.CURRENT).readlink() / missing
    shutil.move(path, tmp_path / "away")
    try:
        with suppress(DevkitError):
            await bed.kubectl("exec", name, "--", "sh", "-c", "kill 1")
        await until(lambda: is_waiting(bed, name, "CreateContainerError"), f"{name} not to start", 60)
        assert not path.exists()  # the runtime has created nothing in its place
    finally:
        shutil.move(tmp_path / "away", path)
    await running(bed, name, 90, restarts=1)
    assert REFUSED in await inside(bed, name, "cuda_malloc -size=5000")


async def is_waiting(bed: Bed, name: str, reason: str) -> bool:
    status = (await bed.api.get(f"{PODS}/{name}"))["status"]
    return any(
        each["state"].get("waiting", {}).get("reason") == reason
        for each in status.get("containerStatuses", ())
    )


# --- what is seen -------------------------------------------------------------------------------


@pytest.mark.short
async def test_the_exporter_exports_usage_and_limit_of_each_container(bed: Bed, node: GpuNode) -> None:
    await grant_exporter(bed)
    often = ["--interval-seconds=0.3", "--deadline-seconds=2", "--stale-seconds=6"]
    exporter = await start_exporter(node, often)
    first, second = (each["metadata"]["name"] for each in await two_of_s2(bed, node))
    # A process that reads the free memory removes the context of the previous one, which has ended.
    await inside(bed, second, "cuda_malloc -size=1024; nvml_memory")
    node.stub.processes(0, [GpuProcess(pid_of(node, name), used_mib=3200) for name in (first, second)])
    expected = {
        "gpushare_container_memory_limit_bytes": {(first,): 4301 * MIB, (second,): 4301 * MIB},
        "gpushare_container_memory_counted_bytes": {(first,): 3193 * MIB, (second,): 3193 * MIB},
        "gpushare_container_memory_uncounted_bytes": {(first,): 7 * MIB, (second,): 7 * MIB},
        "gpushare_container_memory_refusals_total": {(first,): 0, (second,): 1},
    }

    seen: dict[str, Any] = {}

    async def shown() -> bool:
        seen.update({metric: await exporter.values(metric, "pod") for metric in expected})
        return seen == expected

    with suppress(DevkitError):
        await until(shown, "the exporter to show both containers", 15, 0.2)
    assert seen == expected
    assert await exporter.values("gpushare_card_unheld_processes", "card") == {("0",): 0}
    node.stub.processes(0, ())
    await exporter.process.stop()
