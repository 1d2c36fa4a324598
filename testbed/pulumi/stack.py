"""One stack of this project and the engine's commands on it.

What belongs here: running ``pulumi``, waiting for it, ending it. What does not: what its events mean
(``testbed.pulumi.outcome``).
"""

import json
from collections.abc import Mapping
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from testbed.control_plane.bed import Bed
from testbed.errors import TestbedError
from testbed.pulumi.outcome import Outcome, outcome_of
from testbed.pulumi.programs import CLI, environment, home, install, link
from testbed.pulumi.project import configure, lay_out
from testbed.system import pids
from testbed.system.process import Process
from testbed.system.waiting import until

_COMMAND_S = 180.0
_UNSET = ("/usr/bin/env", "--unset=KUBECONFIG")
_AT_ONCE = ("--yes", "--skip-preview")
_OPERATIONS = {"preview": (), "up": _AT_ONCE, "refresh": _AT_ONCE, "destroy": _AT_ONCE}


class PulumiError(TestbedError):
    """A command of the engine failed; ``outcome`` is how far it came, its text is the engine's own."""

    def __init__(self, message: str, outcome: Outcome) -> None:
        super().__init__(message)
        self.outcome = outcome


class Stack:
    """A stack with home, state and configuration of its own, below ``folder`` of the bed.

    ``env`` is added to the environment of every command.
    Its processes end with the bed. Commands raise PulumiError where the engine ends with a failure,
    and TestbedError where it does not end in time.
    """

    def __init__(self, bed: Bed, name: str, programs: Path) -> None:
        self.bed = bed
        self.name = name
        self.folder = bed.folder / f"pulumi-{name}"
        self.project = self.folder / "project"
        self._cli = programs / CLI
        self.env = environment(self.folder, programs)
        self._numbers = count(1)

    @classmethod
    async def create(
        cls,
        bed: Bed,
        config: Mapping[str, object],
        *,
        name: str = "test",
        kubeconfig: Path | None = None,
        provider: Path | None = None,
    ) -> "Stack":
        """Make an empty stack.

        ``config`` has the project's keys without their prefix. ``kubeconfig`` is what the provider
        finds in ``~/.kube/config``, the bed's admin by default; ``provider`` a program in place of the
        official one.
        """
        programs = await install(bed.folder / f"pulumi-{name}" / "bin", provider=provider)
        stack = cls(bed, name, programs)
        (stack.folder / "state").mkdir()
        link(home(stack.folder) / ".kube", {"config": kubeconfig or bed.kubeconfig})
        lay_out(stack.project)
        stack.configure(config)
        await stack.run("stack", "init")
        return stack

    def configure(self, config: Mapping[str, object]) -> None:
        """Replace the configuration."""
        configure(self.project, self.name, config)

    async def preview(self, *flags: str) -> Outcome:
        """What ``up`` would do."""
        return await self.run("preview", *flags)

    async def up(self, *flags: str) -> Outcome:
        """Bring the cluster to what the configuration says."""
        return await self.run("up", *flags)

    async def refresh(self, *flags: str) -> Outcome:
        """Bring the engine's state to what the cluster has."""
        return await self.run("refresh", *flags)

    async def destroy(self, *flags: str) -> Outcome:
        """Delete everything that the stack made."""
        return await self.run("destroy", *flags)

    async def cancel(self) -> Outcome:
        """Release the stack from a command that was killed."""
        return await self.run("cancel", "--yes")

    async def export(self) -> dict[str, Any]:
        """The engine's state."""
        file = self.folder / "export.json"
        await self.run("stack", "export", "--file", str(file))
        document: dict[str, Any] = json.loads(file.read_text())
        return document

    async def run(self, *arguments: str, timeout_s: float = _COMMAND_S) -> Outcome:
        """Run any command of the CLI to its end."""
        return await self.finish(await self.start(*arguments), timeout_s)

    async def start(self, command: str, *arguments: str) -> Process:
        """Start a command; ``finish`` waits for its end, ``kill`` brings it."""
        name = f"pulumi-{self.name}-{next(self._numbers)}-{command}"
        own = [*_OPERATIONS[command], f"--event-log={self._events(name)}"] if command in _OPERATIONS else []
        shared = [f"--cwd={self.project}", "--non-interactive", "--color=never"]
        argv = [*_UNSET, str(self._cli), *shared, command, *own, *arguments, f"--stack={self.name}"]
        return await self.bed.spawn(name, argv, env=self.env)

    async def finish(self, process: Process, timeout_s: float = _COMMAND_S) -> Outcome:
        """Wait for a command's end."""
        try:
            status = await process.wait(timeout_s)
        except TestbedError as error:
            raise TestbedError(f"{error}; so far:\n{process.command.log.read_text()}") from error
        finally:
            pids.end_session(process.pid, self.bed.folder)
        events = self._events(process.name)
        lines = events.read_text().splitlines() if events.exists() else []
        outcome = outcome_of(lines, process.command.log.read_text())
        if status:
            raise PulumiError(f"{process.name} ended with {status}:\n{outcome.text}", outcome)
        return outcome

    async def kill(self, process: Process) -> None:
        """End a command, its language host and its providers with SIGKILL.

        Not while it writes its state: this release of the engine cannot read a file that it wrote by half.
        """
        await until(partial(self._halted, process), "the engine's state to be whole")
        pids.end_session(process.pid, self.bed.folder)
        await process.wait()

    async def _halted(self, process: Process) -> bool:
        """Whether the engine stands still with its state whole; it goes on otherwise."""
        await process.pause()
        if all(map(_is_whole, (self.folder / "state").rglob(f"stacks/**/{self.name}.json"))):
            return True
        await process.resume()
        return False

    def _events(self, name: str) -> Path:
        return self.folder / f"{name}.events"


def _is_whole(file: Path) -> bool:
    try:
        json.loads(file.read_bytes())
    except ValueError:
        return False
    return True
