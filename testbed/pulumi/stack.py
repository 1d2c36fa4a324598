"""One stack of this project, and the commands of the engine.

What belongs here: the project folder and configuration of a stack; running, awaiting and killing
``pulumi``. What does not: its programs (``testbed.pulumi.programs``), and parsing its events
(``testbed.pulumi.outcome``).
"""

import json
import shutil
from collections.abc import Mapping
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import yaml

from devkit import pids
from devkit.errors import DevkitError
from devkit.process import Process
from devkit.waiting import until
from testbed.control_plane.bed import Bed
from testbed.pulumi.outcome import PulumiOutcome, outcome_of
from testbed.pulumi.programs import CLI, environment, home, install, link

_ROOT = Path(__file__).parents[2]
_COPIED = ("Pulumi.yaml", "__main__.py")
_LINKED = ("components", "gpushare")
_PREFIX = "gpushare:"
_COMMAND_S = 180.0
_UNSET = ("/usr/bin/env", "--unset=KUBECONFIG")
_AT_ONCE = ("--yes", "--skip-preview")
_OPERATIONS = {"preview": (), "up": _AT_ONCE, "refresh": _AT_ONCE, "destroy": _AT_ONCE}


class PulumiError(DevkitError):
    """A command of the engine failed; ``outcome`` has the steps until then, and the output."""

    def __init__(self, message: str, outcome: PulumiOutcome) -> None:
        super().__init__(message)
        self.outcome = outcome


class PulumiStack:
    """A stack with separate home, state and configuration, in ``folder`` of the testbed.

    ``env`` is added to the environment of every command. Its processes end with the testbed. Commands raise
    PulumiError if the engine fails, and DevkitError if it does not exit in time.
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
    ) -> "PulumiStack":
        """Create an empty stack.

        ``config`` has the keys of the project without their prefix. The provider uses ``kubeconfig`` as
        ``~/.kube/config``; default: the admin of the testbed. ``provider`` is a program that replaces the
        official one.
        """
        programs = await install(bed.folder / f"pulumi-{name}" / "bin", provider=provider)
        stack = cls(bed, name, programs)
        (stack.folder / "state").mkdir()
        link(home(stack.folder) / ".kube", {"config": kubeconfig or bed.kubeconfig})
        _create_project(stack.project)
        stack.configure(config)
        await stack.run("stack", "init")
        return stack

    def configure(self, config: Mapping[str, object]) -> None:
        """Replace the configuration; other keys in the file, written by the engine, stay."""
        file = self.project / f"Pulumi.{self.name}.yaml"
        kept: dict[str, Any] = yaml.safe_load(file.read_text()) if file.exists() else {}
        values = {_PREFIX + key: value for key, value in config.items()}
        file.write_text(yaml.safe_dump({**kept, "config": values}))

    async def preview(self, *flags: str) -> PulumiOutcome:
        """Return what ``up`` would do."""
        return await self.run("preview", *flags)

    async def up(self, *flags: str) -> PulumiOutcome:
        """Apply the configuration to the cluster."""
        return await self.run("up", *flags)

    async def refresh(self, *flags: str) -> PulumiOutcome:
        """Update the state of the engine from the cluster."""
        return await self.run("refresh", *flags)

    async def destroy(self, *flags: str) -> PulumiOutcome:
        """Delete all objects of the stack."""
        return await self.run("destroy", *flags)

    async def cancel(self) -> PulumiOutcome:
        """Unlock the stack after a command was killed."""
        return await self.run("cancel", "--yes")

    async def export(self) -> dict[str, Any]:
        """Return the state of the engine."""
        file = self.folder / "export.json"
        await self.run("stack", "export", "--file", str(file))
        document: dict[str, Any] = json.loads(file.read_text())
        return document

    async def run(self, *arguments: str, timeout_s: float = _COMMAND_S) -> PulumiOutcome:
        """Run any command of the CLI and return its outcome."""
        return await self.finish(await self.start(*arguments), timeout_s)

    async def start(self, command: str, *arguments: str) -> Process:
        """Start a command; ``finish`` waits for it, ``kill`` kills it."""
        name = f"pulumi-{self.name}-{next(self._numbers)}-{command}"
        own = [*_OPERATIONS[command], f"--event-log={self._events(name)}"] if command in _OPERATIONS else []
        shared = [f"--cwd={self.project}", "--non-interactive", "--color=never"]
        argv = [*_UNSET, str(self._cli), *shared, command, *own, *arguments, f"--stack={self.name}"]
        return await self.bed.spawn(name, argv, env=self.env)

    async def finish(self, process: Process, timeout_s: float = _COMMAND_S) -> PulumiOutcome:
        """Wait until a command has exited, and return its outcome."""
        try:
            status = await process.wait(timeout_s)
        except DevkitError as error:
            raise DevkitError(f"{error}; so far:\n{process.command.log.read_text()}") from error
        finally:
            pids.end_session(process.pid, self.bed.folder)
        events = self._events(process.name)
        lines = events.read_text().splitlines() if events.exists() else []
        outcome = outcome_of(lines, process.command.log.read_text())
        if status:
            raise PulumiError(f"{process.name} ended with {status}:\n{outcome.text}", outcome)
        return outcome

    async def kill(self, process: Process) -> None:
        """Kill a command, its language host and its providers with SIGKILL.

        Waits until the state is complete. The engine replaces its file atomically, but not that with its
        attributes, without which it reads neither.
        """
        await until(partial(self._halted, process), "the state of the engine to be complete")
        pids.end_session(process.pid, self.bed.folder)
        await process.wait()

    async def _halted(self, process: Process) -> bool:
        """Suspend the engine; return whether its state is complete, and continue it if not."""
        await process.pause()
        states = list((self.folder / "state").rglob(f"stacks/**/{self.name}.json"))
        files = [*states, *(file.with_name(f"{file.name}.attrs") for file in states)]
        if states and all(map(_is_complete, files)):
            return True
        await process.resume()
        return False

    def _events(self, name: str) -> Path:
        return self.folder / f"{name}.events"


def _create_project(folder: Path) -> None:
    """Create a copy of the project, so that the engine writes nothing into the checkout."""
    folder.mkdir(parents=True)
    for name in _COPIED:
        shutil.copy(_ROOT / name, folder / name)
    for name in _LINKED:
        (folder / name).symlink_to(_ROOT / name)


def _is_complete(file: Path) -> bool:
    try:
        json.loads(file.read_bytes())
    except (FileNotFoundError, ValueError):
        return False
    return True
