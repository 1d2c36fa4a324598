"""The observer reads the same from the files of a node, wherever its root is, and serves it."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from devkit.ports import LOOPBACK, free_ports
from devkit.waiting import meanwhile
from testbed import until
from tests.soak import observer
from tests.soak.nodes import Container, with_units

UUID = "GPU-1"


def bundle(root: Path, name: str, *, env: tuple[str, ...] = ("ALIYUN_COM_GPU_MEM_CONTAINER=4",)) -> Path:
    """The bundle of a container, as containerd writes it."""
    folder = root / observer.BUNDLES / name
    folder.mkdir(parents=True)
    spec = {
        "annotations": {"io.kubernetes.cri.sandbox-uid": f"uid of {name}"},
        "process": {"env": list(env)},
        "mounts": [{"destination": "/dev"}, {"destination": f"/var/run/nvidia-container-devices/{UUID}"}],
    }
    (folder / "config.json").write_text(json.dumps(spec))
    return folder


def process(root: Path, folder: Path, pid: int, state: str = "S (sleeping)") -> None:
    """The first process of a container, which handles SIGUSR1."""
    (folder / "init.pid").write_text(str(pid))
    proc = root / f"proc/{pid}"
    proc.mkdir(parents=True)
    mask = 1 << (signal.SIGUSR1 - 1)
    (proc / "status").write_text(f"Name:\tsleep\nState:\t{state}\nGroups:\t \nSigCgt:\t{mask:016x}\n")


def read(root: Path) -> list[Container]:
    return list(with_units(observer.containers(root)))


def test_a_running_container_is_read_from_its_oci_spec(tmp_path: Path) -> None:
    process(tmp_path, bundle(tmp_path, "a"), 7)
    (found,) = read(tmp_path)
    assert (found.uid, found.pid, found.units, found.gpus) == ("uid of a", 7, 4, [UUID])
    assert found.handles(signal.SIGUSR1)
    assert not found.handles(signal.SIGTERM)


def test_containers_without_a_live_process_or_gpu_memory_are_omitted(tmp_path: Path) -> None:
    bundle(tmp_path, "not-started")
    (bundle(tmp_path, "gone") / "init.pid").write_text("8")
    process(tmp_path, bundle(tmp_path, "zombie"), 9, "Z (zombie)")
    process(tmp_path, bundle(tmp_path, "sandbox", env=("PATH=/bin",)), 10)
    half_written = bundle(tmp_path, "half-written")
    process(tmp_path, half_written, 11)
    (half_written / "config.json").write_text("{")
    assert read(tmp_path) == []


def test_a_node_without_containers_has_none(tmp_path: Path) -> None:
    assert read(tmp_path) == []


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(await reader.readline())
    writer.close()


async def _asked(port: int, line: bytes = b"") -> bytes:
    reader, writer = await asyncio.open_connection(LOOPBACK, port)
    writer.write(line)
    try:
        return await reader.read()
    finally:
        writer.close()


@asynccontextmanager
async def served(root: Path, target: Path) -> AsyncIterator[tuple[int, int]]:
    """An observer's two ports."""
    port, forwarded = free_ports(2)

    async def answers() -> bool:
        try:
            await _asked(port)
        except OSError:
            return False
        return True

    async with meanwhile(observer.serve(LOOPBACK, port, forwarded, str(target), root)):
        await until(answers, "the observer", poll_s=0.01)
        yield port, forwarded


async def test_each_connection_gets_the_containers_of_that_moment(tmp_path: Path) -> None:
    async with served(tmp_path, tmp_path / "none") as (port, _):
        assert json.loads(await _asked(port)) == []
        process(tmp_path, bundle(tmp_path, "a"), 7)
        found: list[dict[str, Any]] = json.loads(await _asked(port))
        assert [each["pid"] for each in found] == [7]


async def test_the_second_port_leads_to_the_socket(tmp_path: Path) -> None:
    target = tmp_path / "socket"
    async with await asyncio.start_unix_server(_echo, target), served(tmp_path, target) as (_, forwarded):
        assert await _asked(forwarded, b"hello\n") == b"hello\n"


async def test_a_connection_to_a_socket_that_nobody_serves_ends(tmp_path: Path) -> None:
    async with served(tmp_path, tmp_path / "none") as (port, forwarded):
        with suppress(ConnectionError):
            assert await _asked(forwarded, b"hello\n") == b""
        assert json.loads(await _asked(port)) == []
