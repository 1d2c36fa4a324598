"""The MPS daemon of a node: runs one control daemon for each GPU.

It is a separate program that uses no API, because stopping it terminates all CUDA programs on the node.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

import structlog

from gpushare.adapters.nvml import Nvml
from gpushare.errors import ConfigError, DriverReplacedError, GpuError, first_of
from gpushare.model.hardware import GpuFacts, Inventory
from gpushare.mpsd.metrics import MpsMetrics
from gpushare.mpsd.settings import MpsSettings
from gpushare.mpsd.supervisor import Supervisor
from gpushare.ports import MpsDriver
from gpushare.runtime.admin_server import AdminRoutes, rendering
from gpushare.runtime.daemon import StopStep, serve, stop_event
from gpushare.runtime.listener import bind_socket

log = structlog.get_logger()

_SHM_MODE: Final = 0o1777
"""Programs of any user share memory with the servers."""
_CLOSE_S: Final = 40.0
"""Longer than a control daemon takes to stop, and shorter than the grace period of the pod."""


async def run(settings: MpsSettings) -> None:
    """Serve until SIGTERM or SIGINT, then stop the control daemons. Raises ConfigError."""
    stop = stop_event()
    create_folders(settings)
    with bind_socket(settings.ops_host, settings.ops_port) as listener:
        async with Nvml() as driver:
            node = ControlDaemons(settings, driver)
            app = AdminRoutes(rendering(node.metrics.registry), live=lambda: None, ready=node.unready)
            log.info("started", folder=str(settings.state), ops_port=listener.getsockname()[1])
            await serve(stop, (app, listener), [node.run()], close=StopStep(node.stop, _CLOSE_S))


def create_folders(settings: MpsSettings) -> None:
    """Create the directories of the control daemons. Raises ConfigError."""
    try:
        settings.state.mkdir(parents=True, exist_ok=True)
        settings.shm.mkdir(parents=True, exist_ok=True)
        settings.shm.chmod(_SHM_MODE)
    except OSError as error:
        raise ConfigError(f"cannot use {error.filename}: {error.strerror}") from error


class ControlDaemons:
    """The control daemons of one machine.

    A GPU that becomes unhealthy or disappears keeps its control daemon while that is running.
    """

    def __init__(self, settings: MpsSettings, driver: MpsDriver) -> None:
        self._settings = settings
        self._driver = driver
        self._healthy: frozenset[str] = frozenset()
        self._supervisors: dict[str, Supervisor] = {}
        self._problem: str | None = "the GPUs have not been read yet"
        self.metrics = MpsMetrics()

    async def run(self) -> None:
        """Run a control daemon for each GPU until cancelled.

        Raises DriverReplacedError after it has stopped the control daemons: their servers and all CUDA
        programs ended with the old driver.
        """
        try:
            async with asyncio.TaskGroup() as tasks:
                while True:
                    for supervisor in await self._update():
                        tasks.create_task(supervisor.run(self._settings.interval_seconds))
                    await asyncio.sleep(self._settings.interval_seconds)
        except* DriverReplacedError as group:
            reason = str(first_of(group))
            log.error("driver_replaced", reason=reason, effect="this process ends to be restarted")  # noqa: TRY400 - an expected failure has no traceback
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop all control daemons, at the same time."""
        await asyncio.gather(*(each.stop() for each in self._supervisors.values()))

    def unready(self) -> str | None:
        """The error that ``/readyz`` returns; None if all control daemons are ready."""
        cards = [f"GPU {uuid}: {each.problem}" for uuid, each in self._supervisors.items() if each.problem]
        problems = [self._problem] if self._problem else []
        return "; ".join([*problems, *cards]) or None

    async def _update(self) -> list[Supervisor]:
        """Read the GPUs; returns the supervisors of new ones. Raises DriverReplacedError."""
        try:
            inventory = await self._driver.inventory()
            self._healthy = shareable(inventory) - _silent(await self._driver.facts())
        except DriverReplacedError:
            raise
        except GpuError as error:
            if str(error) != self._problem:
                log.warning("cards_not_read", reason=str(error))
            self._problem = str(error)
            return []
        except Exception as error:  # a defect costs one poll; an exit would terminate all CUDA programs
            log.exception("poll_failed")
            self._problem = f"{type(error).__name__}: {error}"
            return []
        self._problem = None
        return [self._add(uuid) for uuid in sorted(self._healthy - self._supervisors.keys())]

    def _add(self, uuid: str) -> Supervisor:
        supervisor = Supervisor(
            uuid, self._settings.state, self._driver, self.metrics, lambda: uuid in self._healthy
        )
        self._supervisors[uuid] = supervisor
        return supervisor


def shareable(inventory: Inventory) -> frozenset[str]:
    """UUIDs of the GPUs that MPS can share: those that are not in MIG mode."""
    return frozenset(gpu.uuid for gpu in inventory.gpus if not gpu.mig)


def _silent(facts: Mapping[str, GpuFacts]) -> frozenset[str]:
    """UUIDs of the GPUs that do not answer."""
    return frozenset(uuid for uuid, each in facts.items() if each.failure)
