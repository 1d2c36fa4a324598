"""Pods with mounts, variables or a user namespace that touch their limit, on a real kubelet and runtime."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from gpushare import contract
from gpushare.model.conflicts import Declared, conflicts_of
from testbed import Bed
from testbed.control_plane.api import Object
from testbed.daemons.agent import GpuNode, start_agent
from tests.support.fixtures.enforced_nodes import IMAGE, add_enforced_node
from tests.support.fixtures.gpu_nodes import clear, container, failed, pod, running
from tests.support.fixtures.isolation import needs_compiler

pytestmark = [pytest.mark.needs("kubelet"), pytest.mark.asyncio(loop_scope="module"), needs_compiler]

FILES = {"name": "v", "configMap": {"name": "files"}}
EMPTY: Object = {"name": "v", "emptyDir": {}}
SLEEPS = "trap exit TERM; sleep infinity & wait $!"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(bed: Bed, package: Path, archive: Path) -> GpuNode:
    found, _ = await add_enforced_node(bed, (contract.LABEL_CGPU, "true"), package, [archive])
    await bed.kubectl("create", "configmap", "files", "--from-literal=ld.so.preload=", "--from-literal=x=y")
    return await start_agent(found, ["--device-list-strategy=volume-mounts"])


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def nothing_left(bed: Bed, node: GpuNode) -> AsyncIterator[None]:
    yield
    await clear(bed, node)


def main(**more: Any) -> Object:
    return container(2, image=IMAGE, script=SLEEPS, **more)


def mounting(name: str, volume: Object, path: str, **more: Any) -> Object:
    """A pod that mounts the volume at the path."""
    return pod(name, main(volumeMounts=[{"name": "v", "mountPath": path, **more}]), volumes=[volume])


def on_preload(name: str, path: str = "/etc/ld.so.preload") -> Object:
    """A pod with a file of a ConfigMap at the path, as webhooks of APM products add it."""
    return mounting(name, FILES, path, subPath="ld.so.preload", readOnly=True)


REJECTED = {
    "apm": (on_preload("apm"), Declared(mounts=("/etc/ld.so.preload",))),
    "slashes": (on_preload("slashes", "//etc/./ld.so.preload"), Declared(mounts=("/etc/ld.so.preload",))),
    "parent": (on_preload("parent", "/etc/x/../ld.so.preload"), Declared(mounts=("/etc/ld.so.preload",))),
    "relative": (on_preload("relative", "etc/ld.so.preload"), Declared(mounts=("/etc/ld.so.preload",))),
    "library": (
        mounting("library", FILES, "/.gpushare/libgpushare.so", subPath="x"),
        Declared(mounts=("/.gpushare/libgpushare.so",)),
    ),
    "folder": (mounting("folder", EMPTY, "/.gpushare"), Declared(mounts=("/.gpushare",))),
    "driver": (
        pod("driver", main(env=[{"name": "LD_PRELOAD", "value": "libcuda.so.1"}])),
        Declared((("LD_PRELOAD", "libcuda.so.1"),)),
    ),
    "guarantee": (
        pod("guarantee", main(env=[{"name": "NVIDIA_GPU_MEMORY_REQUEST", "value": "1"}])),
        Declared((("NVIDIA_GPU_MEMORY_REQUEST", "1"),)),
    ),
    "userns": (pod("userns", main(), hostUsers=False), Declared(user_namespace=True)),
}


async def test_pods_that_would_undo_their_limit_are_rejected_with_cause_and_remedy(
    bed: Bed, node: GpuNode
) -> None:
    del node
    await bed.create_pods([found for found, _ in REJECTED.values()])
    for name, (_, declared) in REJECTED.items():
        (conflict,) = conflicts_of(declared)
        message = (await failed(bed, name))["status"]["message"]
        assert f"pod default/{name}, container main {conflict.text}" in message


ABOVE = {
    "etc": mounting("etc", EMPTY, "/etc"),
    "opt-read-only": mounting("opt-read-only", FILES, "/opt"),
    "opt": mounting("opt", EMPTY, "/opt"),
    "usr-local": mounting("usr-local", FILES, "/usr/local"),
}

LOOK = "cuda_malloc -size=2500 2>&1; ls -A /opt 2>/dev/null; true"


async def test_pods_with_volumes_above_and_beside_our_files_start_with_their_limit(
    bed: Bed, node: GpuNode
) -> None:
    del node
    await bed.create_pods(list(ABOVE.values()))
    await asyncio.gather(*(running(bed, name, 60) for name in ABOVE))
    for name in ABOVE:
        output = await bed.kubectl("exec", name, "--", "sh", "-c", LOOK)
        assert "code=2(cudaErrorMemoryAllocation)" in output, name
        assert not output.rstrip().endswith("gpushare"), "a mount point of ours is in a volume of the pod"
