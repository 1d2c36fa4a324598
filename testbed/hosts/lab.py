"""Running hosts: start, connect, stop.

What does not belong here: texts (``files``), commands (``wiring``).
"""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from devkit.errors import DevkitError
from devkit.ports import LOOPBACK
from devkit.process import Command, Process, Ready, run_text
from devkit.waiting import finish, together
from testbed import cgroups, kubelets
from testbed.control_plane.commands import API_ADDRESS
from testbed.control_plane.home import Home
from testbed.hosts import base, files, needs, repository, wiring
from testbed.hosts.base import HostBase
from testbed.hosts.spec import HOSTS, HostSpec, addresses
from testbed.programs.debian import program

_FORWARDER: Final = Path(kubelets.__file__).with_name("forward.py")
_SHORT_S: Final = 30.0
_BOOT_S: Final = 60.0
_HOST_KEY: Final = "etc/ssh/ssh_host_ed25519_key.pub"
_UP: Final = ("running", "degraded")
_NETWORK: Final = "network"
_OWN_NETWORK: Final = Path("/proc/self/ns/net")


class Lab:
    """A few hosts in a separate network: ``async with`` runs them.

    ``name`` is the folder among those of testbeds; without it a new folder is used and removed.
    ``bound=False`` is for hosts that outlive this process (``leave_up``).
    """

    def __init__(
        self, hosts: tuple[HostSpec, ...] = HOSTS, *, name: str | None = None, bound: bool = True
    ) -> None:
        self.hosts = hosts
        self.addresses = addresses(hosts)
        self._name = name
        self._bound = bound
        self._home: Home | None = None
        self._processes: dict[str, Process] = {}

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await finish(self.close())

    @property
    def folder(self) -> Path:
        """The folder of the hosts, without their disks; logs are in ``logs/``."""
        return self._taken.folder

    @property
    def inventory(self) -> Path:
        """The inventory file: all hosts in their groups."""
        return self.folder / "inventory.yml"

    @property
    def ssh_config(self) -> Path:
        """The configuration for ``ssh -F`` with the names of the hosts."""
        return self.folder / "ssh_config"

    @property
    def namespace(self) -> Path:
        """The network namespace of the hosts."""
        return Path(f"/proc/{self._processes[_NETWORK].pid}/ns/net")

    def disk(self, name: str) -> Path:
        """Return the folder of the files that a host has written."""
        return self._layout(name).disk

    async def open(self) -> None:
        """Create missing parts of the cache, boot all hosts, and return when they accept logins.

        Raises DevkitError with missing requirements of this machine, or the host that did not start.
        """
        needs.look()
        packages = await repository.ensure()
        bases = await base.ensure([host.base for host in self.hosts])
        self._home = await asyncio.to_thread(Home.take, self._name)
        try:
            await self._run(_NETWORK, wiring.network(), self._has_network)
            await self._write_access(bases)
            await together(self._boot(host, bases[host.base], packages) for host in self.hosts)
        except BaseException:
            await finish(self.close(keep=True))
            raise

    async def close(self, *, keep: bool = False) -> None:
        """Shut all hosts down and remove their disks; with ``keep`` the logs stay."""
        await hang_up(self.folder)
        hosts = [process for name, process in self._processes.items() if name != _NETWORK]
        await asyncio.gather(*(process.stop() for process in hosts))
        if _NETWORK in self._processes:
            await _succeeds(wiring.disconnect(self._processes[_NETWORK].pid))
            await self._processes[_NETWORK].stop()
        for host in self.hosts:
            await asyncio.to_thread(cgroups.remove, self._group(host.name))
        self._taken.release(keep=keep)

    def leave_up(self) -> None:
        """Keep the hosts running after this process; only with ``bound=False``."""
        if self._bound:
            raise DevkitError("these hosts end with this process: create them with bound=False")
        self._taken.leave_up({"inventory": str(self.inventory)})

    async def expose(self, port: int) -> None:
        """Forward a TCP port of 192.0.2.1 in the network of the hosts to the loopback of this machine."""
        pid_file = str(self._processes[_NETWORK].command.pid_file)
        addresses = [LOOPBACK, API_ADDRESS]
        argv = [sys.executable, "-I", "-S", str(_FORWARDER), pid_file, str(port), LOOPBACK, *addresses]
        call = wiring.within(self.namespace, ["bash", "-c", f"</dev/tcp/{API_ADDRESS}/{port}"])

        async def listening() -> bool:
            return await _succeeds(call)

        await self._run(f"port-{port}", argv, listening)

    async def connect(self) -> None:
        """Connect this machine with the network of the hosts, as ``MACHINE``; they must be up."""
        for command in wiring.connect(self.namespace, self._processes[_NETWORK].pid, self.addresses.values()):
            await run_text(command, _SHORT_S)

    async def route(self, subnet: str, name: str) -> None:
        """Route a subnet to a host, in the network of the hosts."""
        await run_text(wiring.route(self.namespace, subnet, self.addresses[name]), _SHORT_S)

    async def ssh(
        self, name: str, command: str, timeout_s: float = _SHORT_S, *, stdin: str | None = None
    ) -> str:
        """Run a shell command on a host and return its stdout; raise DevkitError with its stderr."""
        return await run_text(["ssh", "-F", str(self.ssh_config), name, command], timeout_s, stdin=stdin)

    async def kill(self, name: str) -> None:
        """Cut the power of a host."""
        self._processes[name].kill()
        await self._processes[name].wait()

    async def start(self, name: str) -> None:
        """Start a host after ``kill``, and return when it accepts logins."""
        await self._processes[name].start()

    @property
    def _taken(self) -> Home:
        if self._home is None:
            raise DevkitError("the hosts were not started")
        return self._home

    def _layout(self, name: str) -> wiring.HostLayout:
        group = self._group(name)
        return wiring.HostLayout(
            name, self._taken.data / name, cgroups.programs(group), cgroups.divisible(group)
        )

    def _group(self, name: str) -> str:
        """Return the name of the cgroup of a host."""
        return f"{cgroups.prefix_of(self.folder)}{name}"

    async def _run(self, name: str, argv: Sequence[str], ready: Ready) -> None:
        command = Command(name, argv, self.folder, ready=ready, ready_s=_BOOT_S, bound=self._bound)
        self._processes[name] = Process(command)
        await self._processes[name].start()

    async def _has_network(self) -> bool:
        # Until the process has unshared its network, the namespace is that of this machine.
        if self.namespace.readlink() == _OWN_NETWORK.readlink():
            return False
        return await _succeeds(
            wiring.within(self.namespace, ["ip", "route", "get", next(iter(self.addresses.values()))])
        )

    async def _write_access(self, bases: Mapping[HostBase, Path]) -> None:
        key = self.folder / "key"
        await run_text(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], _SHORT_S)
        known = {self.addresses[host.name]: bases[host.base] / _HOST_KEY for host in self.hosts}
        lines = [f"{address} {file.read_text()}" for address, file in known.items()]
        (self.folder / "known_hosts").write_text("".join(lines))
        self.ssh_config.write_text(
            files.ssh_config(self.addresses, self.namespace, self.folder, program("busybox"))
        )
        self.inventory.write_text(files.inventory(self.hosts, self.addresses, self.folder))

    async def _boot(self, host: HostSpec, root: Path, packages: Path) -> None:
        layout = self._layout(host.name)
        key = (self.folder / "key.pub").read_text()
        _write(layout.disk, files.of_host(host, self.addresses[host.name], key))
        script = wiring.first_process(layout, root, files.binds(host, packages), containers=host.containers)
        layout.script.write_text(script)
        await asyncio.to_thread(cgroups.create, self._group(host.name))
        await asyncio.to_thread(cgroups.delegate, self._group(host.name))
        await self._run(host.name, wiring.holder(layout, self.namespace), lambda: self._is_up(host.name))

    async def _is_up(self, name: str) -> bool:
        # The exit status of a degraded system is not 0.
        ask = ["ssh", "-F", str(self.ssh_config), name, "systemctl is-system-running || :"]
        try:
            return (await run_text(ask, _SHORT_S)).strip() in _UP
        except DevkitError:
            return False


async def hang_up(folder: Path) -> None:
    """Close the SSH connections that Ansible keeps open in the background."""
    for socket in _sockets(folder):
        await _succeeds(["ssh", "-S", str(socket), "-O", "exit", "host"])


def _sockets(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"*{files.CONTROL}"))


def _write(disk: Path, texts: dict[str, str]) -> None:
    for inside, text in texts.items():
        path = disk / inside.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        if inside.endswith("/"):
            path.mkdir(exist_ok=True)
        else:
            path.write_text(text)


async def _succeeds(argv: list[str]) -> bool:
    try:
        await run_text(argv, _SHORT_S)
    except DevkitError:
        return False
    return True
