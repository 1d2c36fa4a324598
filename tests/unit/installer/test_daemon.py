"""The installer as a process: rounds, logs, the admin server and its end."""

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from devkit import waiting
from gpushare.installer.install import install
from gpushare.isolation.versions import current_version, installed_versions
from tests.support.builders.library_package import package
from tests.support.fixtures.daemons import DEADLINE_S, Daemon
from tests.support.waiting import until


@asynccontextmanager
async def running(verb: str, *flags: str, node: Path) -> AsyncIterator[Daemon]:
    argv = ["-m", "gpushare", "isolation", verb, "--wait", "--interval-seconds=0.1"]
    record = node.parent / "allocations.json"
    own = [f"--folder={node}", f"--record={record}", "--ops-host=127.0.0.1", "--ops-port=0"]
    process = await asyncio.create_subprocess_exec(
        sys.executable, *argv, *own, *flags, stderr=asyncio.subprocess.PIPE
    )
    installer = Daemon(process)
    try:
        await installer.started()
        yield installer
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def until_ready(installer: Daemon) -> None:
    async def ready() -> bool:
        return (await installer.get("/readyz")).status_code == 200

    await waiting.until(ready, "/readyz to be 200", DEADLINE_S, poll_s=0.02)


def record(tmp_path: Path, *versions: str) -> None:
    grants = [{"enforcement": {"library": version}} for version in versions]
    fresh = tmp_path / "fresh.json"
    fresh.write_text(json.dumps({"version": 1, "allocations": grants}))
    fresh.rename(tmp_path / "allocations.json")


async def test_the_library_is_installed_and_kept_until_sigterm(tmp_path: Path) -> None:
    node = tmp_path / "node"
    async with running("install", f"--package={package(tmp_path / 'p')}", node=node) as installer:
        await until(lambda: current_version(node) is not None)
        (node / "current" / "libgpushare.so").write_text("spoiled")
        await until(lambda: (node / "current" / "libgpushare.so").read_text() == "one")
        assert "library_repaired" in str(await installer.line("library_repaired"))
        assert await installer.end() == 0
    assert (node / "current" / "libgpushare.so").read_text() == "one"


async def test_health_and_metrics_report_the_version_of_new_containers(tmp_path: Path) -> None:
    node = tmp_path / "node"
    async with running("install", f"--package={package(tmp_path / 'p')}", node=node) as installer:
        await until(lambda: current_version(node) is not None)
        await until_ready(installer)
        assert (await installer.get("/healthz")).status_code == 200
        page = (await installer.get("/metrics")).text
        assert f'gpushare_isolation_library_info{{version="{current_version(node)}"}} 1.0' in page


async def test_a_failed_installation_is_logged_and_retried(tmp_path: Path) -> None:
    node, own = tmp_path / "node", package(tmp_path / "p")
    async with running("install", f"--package={own}", node=node) as installer:
        await until(lambda: current_version(node) is not None)
        (own / "libgpushare.so").write_text("other")
        reported = await installer.line("round_failed")
        assert "does not match SHA256SUMS" in str(reported["problem"])
        assert "does not match SHA256SUMS" in (await installer.get("/readyz")).text
        assert (await installer.get("/healthz")).status_code == 200
        (own / "libgpushare.so").write_text("one")
        await until_ready(installer)


async def test_a_version_is_removed_once_no_container_uses_it(tmp_path: Path) -> None:
    node = tmp_path / "node"
    old = install(package(tmp_path / "old", "old"), node)
    record(tmp_path, old)
    async with running("install", f"--package={package(tmp_path / 'p')}", node=node) as installer:
        kept = (await installer.line("versions"))["kept"]
        assert kept == {old: "in use by containers", current_version(node): "new containers get it"}
        record(tmp_path)
        await until(lambda: installed_versions(node) == (current_version(node),))


async def test_without_a_record_every_version_stays_with_a_log_entry(tmp_path: Path) -> None:
    node = tmp_path / "node"
    old = install(package(tmp_path / "old", "old"), node)
    async with running("install", f"--package={package(tmp_path / 'p')}", node=node) as installer:
        kept = (await installer.line("versions"))["kept"]
        assert isinstance(kept, dict)
        assert re.fullmatch(r"may be in use: .*/allocations\.json does not exist", kept[old])
    assert old in installed_versions(node)


async def test_uninstalling_removes_the_link_at_once_and_each_version_once_it_is_unused(
    tmp_path: Path,
) -> None:
    node = tmp_path / "node"
    version = install(package(tmp_path / "p"), node)
    record(tmp_path, version)
    async with running("uninstall", node=node) as installer:
        assert (await installer.line("versions"))["kept"] == {version: "in use by containers"}
        assert current_version(node) is None
        record(tmp_path)
        await until(lambda: not list(node.iterdir()))
        assert await installer.end() == 0


async def test_a_package_that_is_spoiled_from_the_start_ends_it(tmp_path: Path) -> None:
    own = package(tmp_path / "p")
    (own / "libgpushare.so").write_text("other")
    async with running("install", f"--package={own}", node=tmp_path / "node") as installer:
        assert await asyncio.wait_for(installer.process.wait(), DEADLINE_S) == 2
        assert installer.process.stderr is not None
        text = (await installer.process.stderr.read()).decode()
    assert "gpushare isolation install: " in text
    assert "does not match SHA256SUMS" in text


@pytest.mark.parametrize("verb", ["install", "uninstall"])
async def test_a_port_that_is_taken_is_named(tmp_path: Path, verb: str) -> None:
    async with running("uninstall", node=tmp_path / "node") as installer:
        port = installer.url.rpartition(":")[2]
        argv = ["-m", "gpushare", "isolation", verb, "--wait", "--ops-host=127.0.0.1", f"--ops-port={port}"]
        second = await asyncio.create_subprocess_exec(
            sys.executable, *argv, f"--folder={tmp_path}/other", stderr=asyncio.subprocess.PIPE
        )
        _, text = await asyncio.wait_for(second.communicate(), DEADLINE_S)
    assert second.returncode == 2
    assert f"cannot listen on 127.0.0.1:{port}" in text.decode()
