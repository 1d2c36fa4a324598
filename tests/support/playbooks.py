"""Runs of ansible-playbook with the checkout's collection, from the control environment."""

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.needs import PLAYBOOK

ROOT = Path(__file__).parents[2]
_RECAP = re.compile(r"^(\S+)\s+: ok=\d+\s+changed=(\d+)", re.MULTILINE)


@dataclass(frozen=True)
class Run:
    """What came of a run: exit status, output, and changed tasks by host."""

    code: int
    output: str

    @property
    def said(self) -> str:
        """The output as one line: Ansible folds long messages."""
        return " ".join(self.output.split())

    @property
    def changed(self) -> dict[str, int]:
        """How many tasks changed something, by host."""
        return {name: int(count) for name, count in _RECAP.findall(self.output)}


def role(folder: Path, name: str, host: str, variables: Mapping[str, Any]) -> list[str]:
    """The command that runs one role on the machine where the command runs, as that host."""
    inventory, play = folder / "hosts.json", folder / f"{name}.json"
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    inventory.write_text(json.dumps({"all": {"hosts": {host: local}}}))
    task = {
        "name": "Run the role",
        "ansible.builtin.include_role": {"name": f"gpushare.nodes.{name}"},
        "vars": dict(variables),
    }
    play.write_text(json.dumps([{"hosts": "all", "gather_facts": False, "tasks": [task]}]))
    return [str(PLAYBOOK), f"--inventory={inventory}", str(play)]


async def run(argv: Sequence[str], timeout_s: float = 240) -> Run:
    """Run it from the root of the checkout; its output is the error where it takes too long."""
    process = await start(argv)
    read = asyncio.ensure_future(_lines(process))
    await asyncio.wait([read], timeout=timeout_s)
    if not read.done():
        kill(process)
        raise AssertionError(f"not over after {timeout_s} s: {await read}")
    return Run(await process.wait(), await read)


async def kill_at(argv: Sequence[str], task: str, timeout_s: float = 240) -> None:
    """Start it and kill it at the first task whose name has these words; fail where it ends before."""
    process = await start(argv)
    seen: list[str] = []
    try:
        async with asyncio.timeout(timeout_s):
            await _read_to(process, task, seen)
    except (EOFError, TimeoutError):
        raise AssertionError(f"no task {task!r} began: {''.join(seen)}") from None
    finally:
        with suppress(ProcessLookupError):
            kill(process)
        await process.communicate()


async def _read_to(process: asyncio.subprocess.Process, task: str, seen: list[str]) -> None:
    assert process.stdout is not None
    while not (seen and seen[-1].startswith("TASK [") and task in seen[-1]):
        line = await process.stdout.readline()
        if not line:
            raise EOFError
        seen.append(line.decode())


def kill(process: asyncio.subprocess.Process) -> None:
    """Kill it with its workers, which it has one of for each host."""
    os.killpg(process.pid, signal.SIGKILL)


async def _lines(process: asyncio.subprocess.Process) -> str:
    output, _ = await process.communicate()
    return output.decode()


async def start(argv: Sequence[str]) -> asyncio.subprocess.Process:
    """Start it in a process group of its own, with its output in a pipe."""
    return await asyncio.create_subprocess_exec(
        *argv,
        cwd=ROOT,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
