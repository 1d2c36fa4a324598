"""Starts a testbed.

What belongs here: the components of a testbed, and their start order. What does not: a running testbed
(``testbed.control_plane.bed``).
"""

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from devkit.errors import PortTaken
from devkit.ports import free_ports
from devkit.waiting import finish, together
from testbed.control_plane.api import Api
from testbed.control_plane.bed import Bed
from testbed.control_plane.components import Components
from testbed.control_plane.credentials import BedCredentials
from testbed.control_plane.home import Home
from testbed.control_plane.layout import BedLayout, Ports
from testbed.control_plane.scheduler import SchedulerSpec
from testbed.programs import build
from testbed.programs.binaries import Installed

_PORTS = 6


@dataclass
class Testbed:
    """etcd, API server, controller manager, and optionally a scheduler and kwok: ``async with`` runs them.

    ``name`` is the folder in the cache; without it a new folder is used and removed. ``api_flags`` and
    ``controller_flags`` are additional flags of the API server and the controller manager. ``audit`` logs
    all writes in ``Bed.audit_log``. ``bound=False`` is for testbeds that outlive this process
    (``Bed.leave_up``); the processes of all others are killed by the kernel when the thread that started
    them exits.
    """

    __test__ = False

    name: str | None = None
    scheduler: SchedulerSpec = field(default_factory=SchedulerSpec)
    kwok: bool = True
    audit: bool = False
    bound: bool = True
    api_flags: Sequence[str] = ()
    controller_flags: Sequence[str] = ()
    _bed: Bed | None = field(default=None, init=False, repr=False)

    async def __aenter__(self) -> Bed:
        self._bed = await self.open()
        return self._bed

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bed is not None:
            await finish(self._bed.close())

    async def open(self) -> Bed:
        """Build missing tools, start all components, and return the testbed when pods can be created.

        The caller closes it. Raises DevkitError if a component does not start, and ConfigError for
        wrong names or environment variables.
        """
        tools = await build.ensure(self._tool_names())
        home = await asyncio.to_thread(Home.take, self.name)
        try:
            return await self._boot_twice(home, tools)
        except BaseException:
            home.release(keep=True)
            raise

    def _tool_names(self) -> list[str]:
        names = ["etcd", "kube-apiserver", "kube-controller-manager", "kubectl"]
        scheduler = [self.scheduler.tool] if self.scheduler.version is not None else []
        return [*names, *scheduler, *(["kwok"] if self.kwok else [])]

    async def _boot_twice(self, home: Home, tools: dict[str, Installed]) -> Bed:
        """Start the testbed; retry once with other ports if another process took one."""
        try:
            return await self._boot(home, tools)
        except PortTaken:
            home.empty()
            return await self._boot(home, tools)

    async def _boot(self, home: Home, tools: dict[str, Installed]) -> Bed:
        bed = self._made(home, tools)
        try:
            await self._start(bed)
        except BaseException:
            await bed.halt()
            raise
        return bed

    def _made(self, home: Home, tools: dict[str, Installed]) -> Bed:
        layout = BedLayout(home.folder, home.data, Ports(*free_ports(_PORTS)))
        credentials = BedCredentials.create(layout)
        context = credentials.context()
        components = Components(layout, tools, context, self.bound)
        return Bed(home, layout, credentials, components, Api(layout.api_url, context), self.scheduler)

    async def _start(self, bed: Bed) -> None:
        make = bed.components
        await bed.run(make.etcd())
        await bed.run(make.kube_apiserver(self.api_flags, with_audit=self.audit))
        commands = [make.kube_controller_manager(self.controller_flags)]
        if self.scheduler.version is not None:
            commands.append(make.kube_scheduler(self.scheduler))
        if self.kwok:
            commands.append(make.kwok())
        work: list[Coroutine[Any, Any, object]] = [bed.run(command) for command in commands]
        await together([*work, bed.until_service_account()])
