"""Errors at the start of a node agent: reported at once and in one line; no kubelet is needed."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

import pytest
import pytest_asyncio

from devkit.waiting import timeout_factor
from gpushare import contract
from gpushare.errors import ApiError
from testbed import until
from testbed.control_plane.api import read_text
from testbed.daemons.agent import agent_argv
from testbed.nvml import NvmlStub, card
from tests.support.fixtures.agents import fake_node
from tests.support.fixtures.gpu_nodes import GpuBed, gpu_bed

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gpus() -> AsyncIterator[GpuBed]:
    async with gpu_bed(extender=False) as found:
        yield found


@pytest.fixture
def stub(tmp_path: Path) -> NvmlStub:
    return NvmlStub(tmp_path / "nvml", cards=[card("T4")])


async def end_of(
    gpus: GpuBed, env: Mapping[str, str], *flags: str, code: int = 1, wrapped: Sequence[str] = ()
) -> str:
    """The last line of an agent that ends with that status."""
    process = await asyncio.create_subprocess_exec(
        *wrapped,
        *agent_argv(gpus.bed, flags),
        "--ops-port=0",
        env={"PATH": os.environ["PATH"], "NODE_NAME": "some-node", **env},
        stderr=asyncio.subprocess.PIPE,
    )
    _, errors = await asyncio.wait_for(process.communicate(), 30 * timeout_factor())
    assert process.returncode == code, errors.decode()
    return errors.decode().splitlines()[-1]


async def test_without_the_library_of_the_driver_the_agent_ends_with_an_error(
    gpus: GpuBed, tmp_path: Path
) -> None:
    end = await end_of(gpus, {}, f"--device-plugin-folder={tmp_path}")
    assert "libnvidia-ml.so.1" in end


async def test_the_error_for_a_missing_node_lists_the_nodes(
    gpus: GpuBed, stub: NvmlStub, tmp_path: Path
) -> None:
    for name in ("right", "wrong"):
        await gpus.bed.api.create("/api/v1/nodes", {"metadata": {"name": name}})
    end = await end_of(gpus, {**stub.env, "NODE_NAME": "typo"}, f"--device-plugin-folder={tmp_path}", code=2)
    assert "NODE_NAME='typo': no such node in the cluster; its nodes are: right, wrong" in end


async def test_the_error_for_a_missing_socket_directory_names_it(
    gpus: GpuBed, stub: NvmlStub, tmp_path: Path
) -> None:
    end = await end_of(gpus, stub.env, f"--device-plugin-folder={tmp_path / 'missing'}")
    assert f"{tmp_path / 'missing'}: No such file or directory" in end


@pytest.mark.needs("root")
async def test_the_error_for_a_read_only_socket_directory_names_it(
    gpus: GpuBed, stub: NvmlStub, tmp_path: Path
) -> None:
    mount = f'mount -t tmpfs -o ro tmpfs {tmp_path} && exec "$@"'
    wrapped = ["unshare", "--mount", "sh", "-c", mount, "sh"]
    end = await end_of(gpus, stub.env, f"--device-plugin-folder={tmp_path}", wrapped=wrapped)
    assert f"{tmp_path} cannot be written; mount it without readOnly" in end


async def test_a_gpu_that_shares_the_memory_of_its_host_is_named_on_the_node(gpus: GpuBed) -> None:
    async with fake_node(gpus.bed, "spark", [card("GB10")]) as fake:

        async def closed() -> str:
            found = await gpus.bed.api.get("/api/v1/nodes/spark")
            return str(found["metadata"].get("annotations", {}).get(contract.ANN_CLOSED, ""))

        async def named() -> bool:
            return "--unified-memory-mib" in await closed()

        await until(named, "the reason on the node")
        reason = await closed()
        assert "GPU 0 (NVIDIA GB10) is not shared: it shares the memory of its host" in reason
        with pytest.raises(ApiError) as refused:
            await read_text(f"{fake.ops_url}/readyz")
        assert reason in str(refused.value)
        assert '"waiting_for_gpus"' in fake.agent.command.log.read_text()


async def test_a_gpu_that_shares_the_memory_of_its_host_is_shared_by_its_declared_size(gpus: GpuBed) -> None:
    flags, before = ["--unified-memory-mib=2048"], {contract.ANN_CLOSED: "no driver"}
    async with fake_node(gpus.bed, "declared", [card("GB10")], flags=flags, annotations=before) as fake:

        async def offered() -> bool:
            return fake.kubelet.allocatable(contract.RESOURCE_MEM) == 2

        await until(offered, "the GPU to be offered")

        async def published() -> bool:
            found = (await gpus.bed.api.get("/api/v1/nodes/declared"))["metadata"]["annotations"]
            cards = json.loads(found.get(contract.ANN_CARDS, "[]"))
            return [(each["model"], each["mib"]) for each in cards] == [("NVIDIA GB10", 2048)] and (
                contract.ANN_CLOSED not in found
            )

        await until(published, "the GPU on the node, without the reason of an earlier wait")


async def test_a_refused_registration_is_logged_and_retried(gpus: GpuBed) -> None:
    """With a fake kubelet: a real one refuses only requests that our agent does not send."""
    async with fake_node(gpus.bed, "refusing", [card("T4")], refuse="not today") as fake:
        log = fake.agent.command.log

        async def reported() -> bool:
            return "not today" in log.read_text()

        await until(reported, "the refusal to be logged")
        with pytest.raises(ApiError, match="not registered with the kubelet"):
            await read_text(f"{fake.ops_url}/readyz")
        fake.kubelet.refuse = None

        async def up() -> bool:
            return fake.kubelet.allocatable(contract.RESOURCE_MEM) == 14

        await until(up, "the registration to succeed")
