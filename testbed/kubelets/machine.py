"""One simulated machine: namespaces, a disk, a network address; independent of Kubernetes.

What belongs here: power on, power off, and running programs on it. What does not: the programs of a
node (``testbed.kubelets.node``), and the commands (``testbed.kubelets.wiring``).
"""

import asyncio
import sys
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from devkit.errors import DevkitError
from devkit.ports import LOOPBACK
from devkit.process import Command, Process, Ready, run_text
from testbed import cgroups
from testbed.control_plane.bed import Bed
from testbed.control_plane.commands import API_ADDRESS
from testbed.kubelets import wiring
from testbed.kubelets.spec import KubeletLayout, Subnet

_HOLDER = "node"
_FORWARDER = "api"
_FOLDER = Path(__file__).parent
_SUBNETS = 256
_COMMAND_S = 30.0
_LISTENING = "0A"


class NodeMachine:
    """A machine of a testbed. ``boot_id`` changes with every start; disk and subnet stay.

    With ``host_pid`` it has the PID namespace of this machine.
    """

    def __init__(self, bed: Bed, layout: KubeletLayout, *, host_pid: bool = False) -> None:
        self._bed = bed
        self._host_pid = host_pid
        self.layout = layout
        self.boot_id = ""
        self._subnet: Subnet | None = None
        self._processes: list[Process] = []

    @property
    def subnet(self) -> Subnet:
        """Its addresses; raises DevkitError if it was never started."""
        if self._subnet is None:
            raise DevkitError(f"{self.layout.name} has no address before its first start")
        return self._subnet

    @property
    def is_on(self) -> bool:
        """Whether it is running, started by this object or another one with the same layout."""
        name = self.process_name(_HOLDER)
        return name in self._bed.processes and self._bed.process(name).running

    @property
    def root(self) -> Path:
        """Its root folder on this machine, while it is on; see ``path``."""
        return Path(f"/proc/{self._holder.pid}/root")

    def path(self, inside: str) -> Path:
        """Return the path on this machine of an absolute path on that one, valid until it is off.

        Only the last component may be a link: the kernel would resolve others on this machine. /var/run is
        replaced by /run.
        """
        if inside.startswith("/var/run/"):
            inside = inside.removeprefix("/var")
        return self.root / inside.lstrip("/")

    def inside(self, argv: Sequence[str]) -> list[str]:
        """Return the command that runs ``argv`` on it."""
        programs = cgroups.programs(self.layout.group)
        return [*_script("enter.py"), str(self._holder.command.pid_file), programs, *argv]

    async def run_text(self, argv: Sequence[str], timeout_s: float = _COMMAND_S) -> str:
        """Run a short command on it and return its stdout; raise DevkitError with its stderr."""
        return await run_text(self.inside(argv), timeout_s)

    def process_name(self, name: str) -> str:
        """Return the name in the testbed of the process ``name`` of the machine."""
        return f"{self.layout.name}.{name}"

    async def run(
        self, name: str, argv: Sequence[str], ready: Ready | None = None, env: Mapping[str, str] | None = None
    ) -> Process:
        """Start a command on this machine (see ``inside``) as a process that ends with the simulated one."""
        bed, full = self._bed, self.process_name(name)
        process = await bed.run(Command(full, argv, bed.folder, env or {}, ready, bound=bed.components.bound))
        self._processes.append(process)
        return process

    async def power_on(self) -> None:
        """Start it, with an empty /run, and connect its network."""
        self._write_settings()
        for folder in wiring.PRIVATE:
            self.layout.on_disk(folder).mkdir(parents=True, exist_ok=True)
        for top in wiring.TOPS:
            wiring.work_folder(self.layout, top).mkdir(exist_ok=True)
        await asyncio.to_thread(cgroups.create, self.layout.group)
        await self._start_holder()
        await self._plug_in()
        await self._forward(self._bed.layout.ports.apiserver)

    async def power_off(self) -> None:
        """Cut the power: kill all its processes; on return, its mounts and interfaces are gone."""
        if self._processes:
            # On SIGTERM, the first process exits after the kernel has killed all others of the namespace.
            await self._holder.stop()
            if self._host_pid:
                await asyncio.to_thread(cgroups.kill, self.layout.group)
            await asyncio.gather(*(process.stop() for process in self._processes))
            self._processes.clear()
        # The kernel removes the network device too, but later.
        with suppress(DevkitError):
            await run_text(wiring.unplug(self.layout), _COMMAND_S)
        await asyncio.to_thread(cgroups.remove, self.layout.group)

    @property
    def _holder(self) -> Process:
        return self._bed.process(self.process_name(_HOLDER))

    def _write_settings(self) -> None:
        self.layout.folder.mkdir(parents=True, exist_ok=True)
        wiring.processors(self.layout).write_text(Path("/proc/cpuinfo").read_text())
        self.boot_id = str(uuid.uuid4())
        for name, value in {**wiring.SETTINGS, wiring.BOOT_ID: self.boot_id}.items():
            file = wiring.settings(self.layout) / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"{value}\n")

    async def _start_holder(self) -> None:
        mark = wiring.booted(self.layout)
        mark.unlink(missing_ok=True)
        script = wiring.first_process(self.layout, cgroups.hierarchies())
        wiring.script(self.layout).write_text(script)

        async def booted() -> bool:
            return mark.exists()

        top, programs = (each(self.layout.group) for each in (cgroups.top, cgroups.programs))
        command = wiring.holder(self.layout, top, programs, host_pid=self._host_pid)
        await self.run(_HOLDER, command, booted)
        await asyncio.to_thread(cgroups.delegate, self.layout.group)

    async def _plug_in(self) -> None:
        for command in wiring.veth_pair(self.layout, self._holder.pid):
            await run_text(command, _COMMAND_S)
        self._subnet = await claim(self.layout, self._subnet)
        await run_text(wiring.host_address(self.layout, self._subnet), _COMMAND_S)
        await self.run_text(["/bin/sh", "-ec", wiring.node_addresses(self._subnet)])

    async def _forward(self, port: int) -> None:
        table = Path(f"/proc/{self._holder.pid}/net/tcp")

        async def listening() -> bool:
            return _listens(table, port)

        pid_file = str(self._holder.command.pid_file)
        argv = [*_script("forward.py"), pid_file, str(port), LOOPBACK, LOOPBACK, API_ADDRESS]
        await self.run(_FORWARDER, argv, listening)


async def claim(layout: KubeletLayout, known: Subnet | None) -> Subnet:
    """Route a free subnet, or the one of an earlier start, to the network device of a node; return it."""
    if known is not None:
        await run_text(wiring.claim(layout, known), _COMMAND_S)
        return known
    for step in range(_SUBNETS):
        subnet = Subnet((layout.first_subnet + step) % _SUBNETS)
        try:
            await run_text(wiring.claim(layout, subnet), _COMMAND_S)
        except DevkitError as error:
            if wiring.TAKEN not in str(error):
                raise
        else:
            return subnet
    raise DevkitError(f"no free subnet among {_SUBNETS} from {Subnet(0).cidr} on: stop other testbeds")


def _listens(table: Path, port: int) -> bool:
    rows = [row.split() for row in table.read_text().splitlines()]
    return any(row[3] == _LISTENING and row[1].endswith(f":{port:04X}") for row in rows)


def _script(name: str) -> list[str]:
    return [sys.executable, "-I", "-S", str(_FOLDER / name)]
