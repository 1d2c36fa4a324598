"""Starts the servers of an arm on this machine, sets their launch rates, and collects what they served."""

import asyncio
import json
import os
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gpushare.adapters.nvml import Nvml
from gpushare.contract import ENV_MPS_MEMORY, ENV_MPS_PERCENT
from gpushare.deviceplugin.core.pacing import ContainerPacing
from gpushare.errors import GpuShareError, SourceError
from gpushare.isolation import region
from gpushare.isolation.limits import CardLimit
from gpushare.model.card_models import SMALLEST_CONTEXT_MIB, initial_context_mib
from gpushare.model.hardware import Gpu
from tests.bench.models.arms import LONGEST_S, Arm, schedule, window_s
from tests.bench.models.results import Run, Server, Window, failures, measured
from tests.bench.models.serving import Served
from tests.bench.models.trace import LENGTH, rotated, trace
from tests.gpu.test_shares import paced_with
from tests.support.fixtures.isolation import ROOT, Preloaded
from tests.support.fixtures.mps import running_mps

START_S: Final = 25.0
"""To start the servers of an arm: an assumption for the first one."""
_LONGEST_START_S: Final = 90.0
_TAIL_S: Final = 0.5
"""All servers still run when the window ends."""
_ANSWER_S: Final = 20.0
"""For a step that has begun, and for writing the results."""
_END_S: Final = 5.0
_REQUESTS: Final = 512
_LINE_BYTES: Final = 1 << 28
_REASON_LINES: Final = 2


class RunFailed(Exception):
    """A run gave no result; the message is the reason."""


@dataclass(frozen=True)
class Bench:
    """What all runs have in common.

    ``python`` is the interpreter of the servers, ``folder`` takes their logs, ``containers`` have our
    libraries built. ``longest_s`` bounds the window of a run, and ``step_s`` is only for servers without a
    device.
    """

    gpu: Gpu
    python: str
    folder: Path
    containers: Sequence[Preloaded]
    shape: str
    slots: int
    seed: int
    device: str = "cuda"
    step_s: float = 0.0
    longest_s: float = LONGEST_S

    @property
    def limit_mib(self) -> int:
        """The memory limit of each server, also of one alone: half of the GPU."""
        return self.gpu.mib // 2

    def config(self, arm: Arm, server: int) -> str:
        """The configuration of a server."""
        return json.dumps(
            {
                "shape": self.shape,
                "slots": self.slots,
                "seed": self.seed,
                "device": self.device,
                "step_s": self.step_s,
                "length": LENGTH,
                "requests": rotated(trace(self.seed, _REQUESTS), server, arm.servers),
            }
        )


async def measure(
    bench: Bench, arms: Sequence[Arm], rounds: int, ends_s: float, on_run: Callable[[Sequence[Run]], None]
) -> Sequence[Run]:
    """Run all arms in all rounds until that time at most; ``on_run`` gets all runs after each.

    An arm that fails is not tried again.
    """
    runs: list[Run] = []
    plan, start_s = list(schedule(arms, rounds)), START_S
    for done, (number, arm) in enumerate(plan):
        failed = failures(runs)
        upcoming = [each for _, each in plan[done:] if each.name not in failed]
        left_s = ends_s - time.monotonic()
        if arm.name in failed or (measure_s := window_s(left_s, upcoming, start_s, bench.longest_s)) is None:
            continue
        begun = time.monotonic()
        runs.append(await _attempt(bench, arm, number, measure_s, min(_LONGEST_START_S, left_s)))
        if runs[-1].servers:
            start_s = max(1.0, time.monotonic() - begun - arm.settle_s - measure_s)
        on_run(runs)
    return runs


async def _attempt(bench: Bench, arm: Arm, number: int, measure_s: float, start_limit_s: float) -> Run:
    try:
        servers = await _run(bench, arm, measure_s, start_limit_s)
    except Exception as error:  # noqa: BLE001 - whatever an arm does, the others run
        return Run(arm.name, number, failure=_reason(error))
    return Run(arm.name, number, servers)


def _reason(error: Exception) -> str:
    match error:
        case RunFailed() | GpuShareError() | OSError():
            return str(error)
        case subprocess.CalledProcessError():
            return f"{error} {error.stderr or error.stdout}"
        case _:
            return f"{type(error).__name__}: {error}"


async def _run(bench: Bench, arm: Arm, measure_s: float, start_limit_s: float) -> tuple[Server, ...]:
    """Start the servers of an arm, let them serve, and return what they did within the window."""
    _write_limits(bench, arm)
    async with AsyncExitStack() as stack:
        mps = stack.enter_context(running_mps()).env if arm.mps else {}
        programs = [
            await stack.enter_async_context(
                _program(bench, arm, server, {**mps, **_variables(bench, arm, server)})
            )
            for server in range(arm.servers)
        ]
        pids = [each.process.pid for each in programs]
        pacing = await stack.enter_async_context(_pacing(bench, pids)) if arm.paced else None
        await asyncio.gather(*(each.line("ready", start_limit_s) for each in programs))
        _check_driver(pacing)
        begin_s = time.monotonic() + arm.settle_s
        window = Window(begin_s, begin_s + measure_s)
        for each in programs:
            each.write(f"{window.end_s + _TAIL_S}\n")
        answers = await asyncio.gather(
            *(each.line("served", arm.settle_s + measure_s + _TAIL_S + _ANSWER_S) for each in programs)
        )
        if pacing:
            _check_driver(pacing)
            _check_paced(bench, arm, pids)
    return tuple(measured(Served(**answer), window) for answer in answers)


# --- limits ---------------------------------------------------------------------------------------


def _write_limits(bench: Bench, arm: Arm) -> None:
    context_mib = SMALLEST_CONTEXT_MIB if arm.mps else initial_context_mib(bench.gpu.model)
    for server in range(arm.servers if arm.limited else 0):
        percent = arm.share(server) if arm.paced else 0
        bench.containers[server].limit(
            CardLimit(bench.gpu.uuid, bench.gpu.mib, bench.limit_mib, bench.gpu.mib, context_mib, percent)
        )


def _variables(bench: Bench, arm: Arm, server: int) -> Mapping[str, str]:
    """What the node agent or the kubelet sets for a container of this arm."""
    found = {}
    if arm.limited:
        container = bench.containers[server]
        found["LD_PRELOAD"] = (container.with_launches() if arm.paced else container).preload
    if arm.mps and arm.limited:
        found[ENV_MPS_MEMORY] = f"0={bench.limit_mib}M"
    if arm.mps and arm.shares:
        found[ENV_MPS_PERCENT] = str(arm.share(server))
    return found


@asynccontextmanager
async def _pacing(bench: Bench, pids: Sequence[int]) -> AsyncIterator["asyncio.Task[None]"]:
    """Sets launch rates once a second, as the node agent does, from the start of the programs on."""
    task = asyncio.create_task(_pace(bench, pids))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)  # _check_driver raised its error


async def _pace(bench: Bench, pids: Sequence[int]) -> None:
    pacing = [ContainerPacing()] * len(pids)
    async with Nvml() as driver:
        while True:
            await asyncio.sleep(1)
            running = (await driver.processes())[bench.gpu.uuid]
            for at, (container, pid) in enumerate(zip(bench.containers, pids, strict=False)):
                with suppress(SourceError):  # a region that is written just now; the agent reads it later too
                    if region.read(container.shared.read_bytes) is not None:
                        own = [process for process in running if process.pid == pid]
                        pacing[at] = paced_with(container, own, running, pacing[at])


def _check_driver(pacing: "asyncio.Task[None] | None") -> None:
    """Raises the error that ended the task."""
    if pacing and pacing.done():
        pacing.result()


def _check_paced(bench: Bench, arm: Arm, pids: Sequence[int]) -> None:
    """Raises RunFailed if a container has no launch rate."""
    for container, pid in zip(bench.containers, pids, strict=False):
        found = region.read(container.shared.read_bytes)
        if found is None or not all(card.rate for card in found.cards):
            raise RunFailed(
                f"{arm.name}: process {pid} has no launch rate; the driver may not list it, because this "
                "needs the host's PID namespace"
            )


# --- programs -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Program:
    """A server, and the file with its errors."""

    process: asyncio.subprocess.Process
    errors: Path

    async def line(self, kind: str, limit_s: float) -> Any:
        """The content of its next line, which is of that kind. Raises RunFailed."""
        assert self.process.stdout is not None
        try:
            async with asyncio.timeout(limit_s):
                line = await self.process.stdout.readline()
        except TimeoutError:
            raise RunFailed(f"a server was not {kind} within {limit_s:.0f} s: {self._reason()}") from None
        if not line:
            raise RunFailed(f"a server ended before it had {kind}: {self._reason()}")
        return json.loads(line)[kind]

    def write(self, text: str) -> None:
        """Write a line to it."""
        assert self.process.stdin is not None
        self.process.stdin.write(text.encode())

    def _reason(self) -> str:
        lines = self.errors.read_text(errors="replace").splitlines()
        return " ".join(lines[-_REASON_LINES:]) or "no error was written"


@asynccontextmanager
async def _program(
    bench: Bench, arm: Arm, server: int, variables: Mapping[str, str]
) -> AsyncIterator[_Program]:
    """A server with these variables; it ends after that, and is killed if it does not."""
    # NVML counts GPUs in the order of their buses, CUDA by default from the fastest on.
    env = {**os.environ, "PYTHONPATH": _path(), "CUDA_DEVICE_ORDER": "PCI_BUS_ID", **variables}
    errors = bench.folder / f"server-{server}.log"
    with errors.open("wb") as file:
        process = await asyncio.create_subprocess_exec(
            bench.python,
            *("-m", "tests.bench.models.server", bench.config(arm, server)),
            cwd=ROOT,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=file,
            limit=_LINE_BYTES,
        )
    try:
        yield _Program(process, errors)
    finally:
        await _ended(process)


async def _ended(process: asyncio.subprocess.Process) -> None:
    """Let it end by itself first: MPS may not survive a client that is killed in a kernel."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        async with asyncio.timeout(_END_S):
            await process.wait()
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _path() -> str:
    """PYTHONPATH of the servers; it may name the folder of their PyTorch."""
    return os.pathsep.join((str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])))
