"""Builds missing tools, one at a time, and prints the progress.

What belongs here: the build, its lock and its progress lines. What does not: the table of tools
(``testbed.programs.binaries``) and the Go toolchain (``testbed.programs.golang``).
"""

import asyncio
import json
import os
import shutil
import signal
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from devkit.errors import DevkitError
from devkit.folders import cache_root
from devkit.locks import POLL_S, exclusive
from devkit.process import run_text, tail
from devkit.progress import say
from devkit.waiting import meanwhile
from testbed.programs import binaries, gocaches
from testbed.programs.binaries import SOURCES, Installed, ModuleFiles, Tool
from testbed.programs.golang import find_go
from testbed.programs.pace import Pace, progress

_BUILD_S = 3600.0
_DOWNLOAD_S = 300.0
_LOCK_S = 2 * 3600.0
_TICK_S = 20.0


async def ensure(names: Sequence[str]) -> dict[str, Installed]:
    """Return the given tools by name; build missing ones first.

    Progress goes to ``devkit.progress``. Raises ConfigError for a wrong environment variable, and DevkitError
    with the last lines and the path of the log for a build that fails.
    """
    root = cache_root()
    tools = {name: binaries.tool(name) for name in names}
    missing = [item for item in tools.values() if _present(item, root) is None]
    if missing:
        await _build_all(missing, root)
    return {name: _present(item, root) or binaries.cached(item, root) for name, item in tools.items()}


async def ensure_files(files: ModuleFiles) -> Path:
    """Return the folder with these files of a Go module; download it first if they are not in the cache."""
    root = cache_root()
    folder = root / "files" / binaries.files_key(files)
    async with exclusive(root / "files" / ".lock", _LOCK_S, "another download", unless=folder.exists):
        if not folder.exists():
            fresh = folder.with_suffix(".new")
            shutil.rmtree(fresh, ignore_errors=True)
            # Each Go that builds kubectl downloads modules.
            go = await find_go(binaries.tool("kubectl"), root)
            with gocaches.caches(root / "files", files.module, keep=False) as environment:
                await _copy_files(files, go, fresh, environment)
            fresh.rename(folder)
    return folder


def present(names: Iterable[str]) -> bool:
    """Return whether all these tools exist, without building any."""
    root = cache_root()
    return all(_present(binaries.tool(name), root) for name in names)


def _present(item: Tool, root: Path) -> Installed | None:
    if own := binaries.own(item):
        return own
    cached = binaries.cached(item, root)
    return cached if cached.path.exists() else None


async def _build_all(missing: list[Tool], root: Path) -> None:
    (root / "bin").mkdir(parents=True, exist_ok=True)
    lock = root / "bin" / ".build.lock"
    for position, item in enumerate(missing):
        exists = binaries.cached(item, root).path.exists
        async with exclusive(lock, _LOCK_S, "another testbed build", unless=exists):
            if not exists():
                await _build(item, root, missing[position:])
        # Lets other processes, which wait for a single tool, take the lock before the next one.
        await asyncio.sleep(2 * POLL_S)


async def _build(item: Tool, root: Path, remaining: list[Tool]) -> None:
    target = binaries.cached(item, root).path
    fresh = target.parent.with_suffix(".new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    pace = Pace(root / "bin" / "seconds.json")
    _say(
        f"building {item.name} {item.version}, about {pace.estimate([item])} s; {len(remaining)} to build, "
        f"about {pace.estimate(remaining)} s {pace.basis}"
    )
    started = time.monotonic()
    go = await find_go(item, root)
    log = root / "bin" / f"{item.name}.log"
    keep = any(each.module == item.module for each in remaining[1:])
    with gocaches.caches(root, item.module, keep=keep) as environment:
        async with _ticking(item, started, pace.estimate([item])):
            argv = binaries.build_command(item, go, fresh / item.name)
            await _run_build(argv, item, log, environment)
        if item.beside:
            await _copy_files(item.beside, go, fresh, environment)
    shutil.rmtree(target.parent, ignore_errors=True)
    fresh.rename(target.parent)
    took = time.monotonic() - started
    pace.record(item, took)
    _say(f"built {item.name} in {took:.0f} s; {len(remaining) - 1} to build")


async def _run_build(argv: list[str], item: Tool, log: Path, environment: Mapping[str, str]) -> None:
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *argv,
            cwd=SOURCES / item.module,
            env={**os.environ, **item.build_env, **environment},
            stdout=output,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        await asyncio.wait_for(process.wait(), _BUILD_S)
    except TimeoutError:
        raise DevkitError(f"building {item.name} took longer than {_BUILD_S:g} s; its log is {log}") from None
    finally:
        if process.returncode is None:
            # The compilers are child processes of go.
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    if process.returncode:
        raise DevkitError(f"building {item.name} failed; its log is {log} and ends with:\n{tail(log)}")


async def _copy_files(files: ModuleFiles, go: Path, target: Path, environment: Mapping[str, str]) -> None:
    assignments = [f"{name}={value}" for name, value in environment.items()]
    argv = ["env", "GOTOOLCHAIN=local", *assignments, str(go), "mod", "download", "-json", files.source]
    module = json.loads(await run_text(argv, _DOWNLOAD_S, cwd=SOURCES / files.module))
    for name in files.files:
        copy = target / files.into / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        # The files of the module cache are read-only; the copies must not be.
        shutil.copyfile(Path(module["Dir"]) / files.folder / name, copy)


@asynccontextmanager
async def _ticking(item: Tool, started: float, estimate: int) -> AsyncIterator[None]:
    async def tick() -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            _say(f"… {item.name}: {progress(time.monotonic() - started, estimate)}")

    async with meanwhile(tick()):
        yield


def _say(text: str) -> None:
    say(f"testbed: {text}")
