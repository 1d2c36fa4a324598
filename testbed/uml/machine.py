"""One machine with its own kernel, user-mode Linux; independent of Kubernetes.

What belongs here: power on, power off, commands and files on it. What does not: the programs of a node
(``node``), and the commands on this machine (``wiring``).
"""

import asyncio
import base64
import json
import secrets
import shutil
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from devkit.errors import DevkitError
from devkit.folders import cache_root
from devkit.ports import LOOPBACK
from devkit.process import Command, Process, run_text, tail
from devkit.waiting import timeout_factor, until
from testbed.control_plane.bed import Bed
from testbed.control_plane.commands import API_ADDRESS
from testbed.kubelets import forward
from testbed.kubelets import wiring as cables
from testbed.kubelets.machine import claim
from testbed.kubelets.spec import KubeletLayout, Subnet
from testbed.uml import image, wiring
from testbed.uml.wiring import Kernel

_COMMAND_S: Final = 60.0
_BOOT_S: Final = 90.0
_MAX_ANSWER: Final = 1 << 26


class UmlMachine:
    """A machine of a testbed; its disk and subnet stay when it is off."""

    def __init__(self, bed: Bed, layout: KubeletLayout, kernel: Kernel, base: Path) -> None:
        self._bed = bed
        self.layout = layout
        self._kernel = kernel
        self._base = base
        self._subnet: Subnet | None = None
        self._processes: list[Process] = []
        self._key = secrets.token_hex()

    @property
    def subnet(self) -> Subnet:
        """Its addresses; raises DevkitError if it was never started."""
        if self._subnet is None:
            raise DevkitError(f"{self.layout.name} has no address before its first start")
        return self._subnet

    @property
    def is_on(self) -> bool:
        """Whether it is running."""
        return any(process.running for process in self._processes)

    async def power_on(self) -> None:
        """Start it, and return when it runs commands."""
        wiring.connected(self.layout).unlink(missing_ok=True)
        self.layout.folder.mkdir(parents=True, exist_ok=True)
        wiring.script(self.layout).write_text(wiring.first_process(self.layout, self._kernel, self._base))
        holder = await self._run("machine", wiring.holder(self.layout))
        await self._plug_in(holder)
        self._write_boot_folder()
        wiring.connected(self.layout).touch()
        try:
            await until(self._answers, f"{self.layout.name} to boot", _BOOT_S)
        except DevkitError as error:
            log = holder.command.log
            raise DevkitError(f"{error}; its console is {log} and ends with:\n{tail(log)}") from None

    async def power_off(self) -> None:
        """Cut the power: kill the kernel with all programs on it."""
        await asyncio.gather(*(process.stop() for process in self._processes))
        self._processes.clear()
        # The kernel removes the network device too, but later.
        with suppress(DevkitError):
            await run_text(cables.unplug(self.layout), _COMMAND_S)

    async def run_text(self, argv: Sequence[str], timeout_s: float = _COMMAND_S, stdin: bytes = b"") -> str:
        """Run a command on it and return its stdout; raise DevkitError with its stderr."""
        return (await self.run_bytes(argv, timeout_s, stdin)).decode()

    async def run_bytes(
        self, argv: Sequence[str], timeout_s: float = _COMMAND_S, stdin: bytes = b""
    ) -> bytes:
        """As ``run_text``, for output that is no text."""
        command = " ".join(argv)
        try:
            answer = await asyncio.wait_for(self._ask(argv, stdin), timeout_s * timeout_factor())
        except TimeoutError:
            raise DevkitError(f"{self.layout.name}: `{command}` did not exit in {timeout_s:g} s") from None
        if answer["code"]:
            raise DevkitError(
                f"{self.layout.name}: `{command}` ended with {answer['code']}: {answer['err'].strip()}"
            )
        return base64.b64decode(answer["out"])

    async def _ask(self, argv: Sequence[str], stdin: bytes) -> Any:
        try:
            reader, writer = await asyncio.open_connection(
                self.subnet.node, wiring.CONTROL_PORT, limit=_MAX_ANSWER
            )
        except OSError as error:
            raise DevkitError(f"{self.layout.name} runs no commands: {error}") from None
        question = {"key": self._key, "argv": list(argv), "stdin": base64.b64encode(stdin).decode()}
        try:
            writer.write(json.dumps(question).encode() + b"\n")
            await writer.drain()
            line = await reader.readline()
        except OSError as error:
            raise DevkitError(f"{self.layout.name} ended during `{argv[0]}`: {error}") from None
        finally:
            writer.close()
        if not line:
            raise DevkitError(f"{self.layout.name} ended during `{argv[0]}`")
        return json.loads(line)

    async def _answers(self) -> bool:
        if not self.is_on:
            raise DevkitError(f"the kernel of {self.layout.name} ended")
        with suppress(DevkitError):
            await self.run_text(["true"])
            return True
        return False

    async def _run(self, name: str, argv: Sequence[str]) -> Process:
        bed = self._bed
        command = Command(f"{self.layout.name}.{name}", argv, bed.folder, bound=bed.components.bound)
        process = await bed.run(command)
        self._processes.append(process)
        return process

    async def _plug_in(self, holder: Process) -> None:
        async def separate() -> bool:
            return _network_of(str(holder.pid)) != _network_of("self")

        await until(separate, f"the network of {self.layout.name}")
        for command in cables.veth_pair(self.layout, holder.pid):
            await run_text(command, _COMMAND_S)
        self._subnet = await claim(self.layout, self._subnet)
        await run_text(cables.host_address(self.layout, self._subnet), _COMMAND_S)

        async def connected() -> bool:
            # The bridge is there a moment later.
            with suppress(DevkitError):
                await run_text(wiring.connect(holder.pid, self.subnet), _COMMAND_S)
                return True
            return False

        await until(connected, f"the bridge of {self.layout.name}")
        port = str(self._bed.layout.ports.apiserver)
        argv = [sys.executable, "-I", "-S", forward.__file__, str(holder.command.pid_file), port]
        await self._run("api", [*argv, LOOPBACK, API_ADDRESS])

    def _write_boot_folder(self) -> None:
        folder = wiring.boot_folder(self.layout)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700)
        (folder / wiring.KEY).write_text(self._key)
        prepare = wiring.prepare(self._kernel, self.subnet, cache_root())
        (folder / image.PREPARE).write_text(prepare)
        control = wiring.serve_control(sys.executable, self.subnet)
        (folder / image.CONTROL).write_text(control)


def _network_of(process: str) -> Path:
    return Path(f"/proc/{process}/ns/net").readlink()
